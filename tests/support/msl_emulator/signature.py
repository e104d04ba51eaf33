"""The text of a kernel as MLX hands it to Metal: signature, attributes, instance of a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mlx.core as mx

from .arrays import METAL_TYPES

if TYPE_CHECKING:
    from .kernel import Launch, MetalKernel

#: Inputs with fewer elements lie in the constant address space.
SMALL = 8

_SCALARS = (
    "dispatch_quadgroups_per_threadgroup",
    "dispatch_simdgroups_per_threadgroup",
    "quadgroup_index_in_threadgroup",
    "quadgroups_per_threadgroup",
    "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "thread_execution_width",
    "thread_index_in_quadgroup",
    "thread_index_in_simdgroup",
    "thread_index_in_threadgroup",
    "threads_per_simdgroup",
)
_TRIPLES = (
    "dispatch_threads_per_threadgroup",
    "grid_origin",
    "grid_size",
    "thread_position_in_grid",
    "thread_position_in_threadgroup",
    "threadgroup_position_in_grid",
    "threadgroups_per_grid",
    "threads_per_grid",
    "threads_per_threadgroup",
)
ATTRIBUTES = dict.fromkeys(_SCALARS, "uint") | dict.fromkeys(_TRIPLES, "uint3")


@dataclass(frozen=True)
class Parameter:
    """A buffer of the kernel: what it is called, how it is declared, how the emulator passes it."""

    declaration: str
    pass_as: str


@dataclass(frozen=True)
class Signature:
    """A kernel for arrays of certain types and sizes."""

    name: str
    template_arguments: str
    parameters: list[Parameter]
    attributes: list[str]
    text: str


def _type_of(value: mx.Dtype | bool | int) -> str:
    return METAL_TYPES[value] if isinstance(value, mx.Dtype) else str(int(value))


def _kind_of(value: mx.Dtype | bool | int) -> str:
    if isinstance(value, mx.Dtype):
        return "typename"
    return "bool" if isinstance(value, bool) else "int"


def describing_buffers(source: str, name: str, array: mx.array) -> list[str]:
    """Which of shape, strides and ndim of an input the kernel gets: those it names."""
    suffixes = ("shape", "strides", "ndim") if array.ndim else ()
    return [suffix for suffix in suffixes if f"{name}_{suffix}" in source]


_DESCRIBING = {
    "shape": ("int* {}_shape", "(const int*)"),
    "strides": ("int64_t* {}_strides", "(const int64_t*)"),
    "ndim": ("int& {}_ndim", "*(const int*)"),
}


def _parameters(kernel: MetalKernel, launch: Launch) -> list[Parameter]:
    found: list[Parameter] = []
    for name, array in zip(kernel.inputs, launch.inputs, strict=True):
        space = "constant" if array.size < SMALL else "device"
        kind = METAL_TYPES[array.dtype]
        by = "&" if array.ndim == 0 else "*"
        found.append(
            Parameter(
                f"const {space} {kind}{by} {name}",
                ("*" if array.ndim == 0 else "") + f"(const {kind}*)",
            )
        )
        for suffix in describing_buffers(kernel.source, name, array):
            declaration, cast = _DESCRIBING[suffix]
            found.append(Parameter("const constant " + declaration.format(name), cast))
    for name, dtype in zip(kernel.outputs, launch.dtypes, strict=True):
        kind = METAL_TYPES[dtype]
        kind = f"atomic<{kind}>" if kernel.atomic_outputs else kind
        found.append(Parameter(f"device {kind}* {name}", f"({kind}*)"))
    return found


def sign(kernel: MetalKernel, launch: Launch) -> Signature:
    """The kernel's text for these arrays."""
    arguments = [_type_of(value) for _, value in launch.template]
    in_brackets = f"<{', '.join(arguments)}>" if arguments else ""
    name = "_".join(["custom_kernel", kernel.name, *arguments])
    for array in launch.inputs:
        kind = "s" if array.ndim == 0 else "c" if array.size < SMALL else ""
        name += f"_{METAL_TYPES[array.dtype]}{kind}"
    name += "".join(f"_{METAL_TYPES[dtype]}" for dtype in launch.dtypes)

    parameters = _parameters(kernel, launch)
    attributes = [a for a in sorted(ATTRIBUTES) if a in kernel.source]
    declarations = [f"  {p.declaration} [[buffer({i})]]" for i, p in enumerate(parameters)]
    declarations += [f"  {ATTRIBUTES[a]} {a} [[{a}]]" for a in attributes]
    template = [f"{_kind_of(value)} {key}" for key, value in launch.template]
    text = kernel.header
    if template:
        text += f"template <{', '.join(template)}>\n"
    text += f"[[kernel]] void {name}(\n" + ",\n".join(declarations) + ") {\n"
    text += kernel.source + "\n}\n"
    if template:
        text += f'\ntemplate [[host_name("{name}")]] [[kernel]] decltype({name}{in_brackets}) '
        text += f"{name}{in_brackets};\n"
    return Signature(name, in_brackets, parameters, attributes, text)
