"""Metal's text as C++ for clang, and a few rules of Metal that clang does not know."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

from .signature import ATTRIBUTES, Signature

FOLDER = Path(__file__).parent

_SHARED = re.compile(
    r"(^|[;{}\n]\s*)threadgroup\s+((?:metal::)?\w+(?:<[^;{}>]*>)?)\s+"
    r"(\w+(?:\s*\[[^\]]*\])*(?:\s*,\s*\w+(?:\s*\[[^\]]*\])*)*)\s*;"
)


def to_cxx(signature: Signature, source_name: str, with_address_spaces: bool) -> str:
    """The text to compile.

    Args:
        signature: the kernel as MLX writes it.
        source_name: what stands for the file in messages, before ``.metal``.
        with_address_spaces: for the syntax-only pass, in which they are part of the types; else for
            the pass that makes a program.
    """
    text = re.sub(r"template \[\[host_name.*?\]\] \[\[kernel\]\]", "template", signature.text)
    text = re.sub(r"[^\n]*#include\s*<metal_\w+>", "", text)
    text = text.replace("using namespace metal;", "")
    text = _shared_variables(text, with_address_spaces)
    start = f'#include "{FOLDER}/shim/metal_stdlib.h"\n#line 1 "{source_name}.metal"\n'
    return start + text + ("" if with_address_spaces else _thread_main(signature))


def _thread_main(signature: Signature) -> str:
    arguments = [f"{p.pass_as}b[{i}]" for i, p in enumerate(signature.parameters)]
    for name in signature.attributes:
        value = f"emu_current()->{name}"
        arguments.append(f"emu_v3({value})" if ATTRIBUTES[name] == "uint3" else value)
    call = f"{signature.name}{signature.template_arguments}({', '.join(arguments)})"
    return f'\nextern "C" void emu_thread_main(void** b) {{ {call}; }}\n'


def _shared_variables(text: str, with_address_spaces: bool) -> str:
    """Give variables declared ``threadgroup`` storage that the threads of a group share."""
    numbers = count()

    def declare(match: re.Match) -> str:
        before, kind, names = match.groups()
        if with_address_spaces:
            return f"{before}static threadgroup {kind} {names};"
        declared = []
        for variable in re.split(r",(?![^\[]*\])", names):
            parts = re.match(r"\s*(\w+)\s*((?:\[[^\]]*\]\s*)*)$", variable)
            assert parts is not None
            name, sizes = parts.groups()
            number = next(numbers)
            alias = f"{name}__tg{number}"
            declared.append(
                f"typedef {kind} {alias}{sizes}; {alias}& {name} = "
                f"*({alias}*)emu_threadgroup_variable({number}, sizeof({alias}));"
            )
        return before + " ".join(declared)

    return _SHARED.sub(declare, text)


_RULES = (
    ("`static` variable is not MSL", r"\bstatic\b(?!.*\b(constexpr|constant|inline)\b)"),
    (
        "pointer cast without an address space",
        r"[(<]\s*(const\s+)?(?!return|sizeof)[a-z]\w*\s*\*+\s*[)>]",
    ),
    ("not in MSL", r"\blong\s+long\b|\blong\s+double\b|\bunion\b|__int128|\basm\b|\[[&=]?\]\s*\("),
)


def lint(text: str) -> list[str]:
    """What Metal does not have although clang's C++ does."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    found = [
        f"lint: source line {number}: {what}: {line.strip()[:50]}"
        for number, line in enumerate(text.split("\n"), 1)
        for what, pattern in _RULES
        if re.search(pattern, line)
    ]
    return found + [f"lint: recursion in {name}" for name in _recursive_functions(text)]


def _recursive_functions(text: str) -> list[str]:
    """Functions that call themselves."""
    found = []
    for match in re.finditer(r"\b(\w+)\s*\([^(){};]*\)\s*\{", text):
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        name = match.group(1)
        is_statement = name in ("if", "for", "while", "switch")
        if not is_statement and re.search(rf"\b{name}\s*\(", text[match.end() : end]):
            found.append(name)
    return found
