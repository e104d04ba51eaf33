"""What is timed: operations and models with their sizes, and which phases of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

PHASES = ("forward", "train", "forces", "force-train", "hvp", "md", "cold")
OPERATION = ("forward", "train")
MODEL = ("forward", "train", "forces", "force-train", "hvp")
POTENTIAL = ("forces", "force-train", "hvp", "md")

#: Steps of molecular dynamics in one call.
MD_STEPS = 5


@dataclass(frozen=True)
class Case:
    """One operation or model with all its sizes.

    Args:
        name: what `--case` chooses.
        label: the sizes, in a few words; unique within the name.
        settings: sizes and irreps, as JSON.
        phases: those that make sense.
        presets: which presets have it: "smoke", "full" (CPU) and "gpu" (full on a GPU).
        seed: of all its numbers.
    """

    name: str
    label: str
    settings: dict[str, Any]
    phases: tuple[str, ...]
    presets: tuple[str, ...]
    seed: int = 0
    structure: dict[str, int] = field(default_factory=dict)


def _natural(channels: int, lmax: int) -> str:
    """Channels of 0e + 1o + 2e + ..."""
    return " + ".join(f"{channels}x{l}{'eo'[l % 2]}" for l in range(lmax + 1))


def _both(channels: int, lmax: int) -> str:
    """Channels of both parities up to lmax, in the order of e3nn's hidden irreps."""
    return " + ".join(f"{channels}x{l}{p}" for l in range(lmax + 1) for p in "oe")


def _operations(preset: str, n: int) -> list[Case]:
    c = {"smoke": 4, "full": 32, "gpu": 64}[preset]
    features = _natural(c, 2)
    return [
        Case("spherical_harmonics", f"l<=3 n={10 * n}", {"lmax": 3, "n": 10 * n},
             OPERATION, (preset,)),
        Case("weighted_tensor_product_uvu", f"{c} channels l<=2 n={2 * n}",
             {"irreps": features, "lmax": 2, "n": 2 * n}, OPERATION, (preset,)),
        Case("scatter_sum", f"{10 * n} rows of {4 * c} into {n // 2}",
             {"n": 10 * n, "width": 4 * c, "segments": n // 2}, OPERATION, (preset,)),
        Case("full_tensor_product", f"{c // 2} x 4 channels l<=1 n={n}",
             {"irreps": [_natural(c // 2, 1), _natural(4, 1)], "n": n}, OPERATION, (preset,)),
        Case("fully_connected_tensor_product", f"{c} x 4 channels n={n}",
             {"irreps": [features, _natural(4, 1), features], "n": n}, OPERATION, (preset,)),
        Case("matrix_product", f"{16 * c} x {16 * c} n={n}", {"n": n, "width": 16 * c},
             OPERATION, (preset,)),
        Case("linear", f"{4 * c} channels l<=2 n={n}",
             {"irreps": [_natural(4 * c, 2)] * 2, "n": n}, OPERATION, (preset,)),
    ]  # fmt: skip


def _convolution(preset: str, n: int, e: int, channels: int, lmax: int, both: bool = False) -> Case:
    irreps = _both(channels, lmax) if both else _natural(channels, lmax)
    label = f"N={n} E={e} C={channels} l<={lmax}{' both parities' if both else ''}"
    settings = {"irreps": irreps, "lmax": lmax, "n": n, "edges": e}
    return Case("convolution", label, settings, OPERATION, (preset,))


def _radial(preset: str, n: int, e: int, channels: int, lmax: int) -> Case:
    settings = {"irreps": _natural(channels, lmax), "lmax": lmax, "n": n, "edges": e}
    settings |= {"radial": [8, 64, 64]}
    label = f"N={n} E={e} C={channels} l<={lmax}"
    return Case("radial_convolution", label, settings, OPERATION, (preset,))


def _model(name: str, preset: str, n: int, e: int, mul: int, lmax: int, phases=MODEL) -> Case:
    settings = {"mul": mul, "layers": 2, "lmax": lmax}
    if name == "v2106_attributed_network":
        settings |= {"irreps_node_attr": "2x0e", "irreps_edge_attr": "1e"}
    label = f"{n} atoms {e} edges mul={mul} l<={lmax}"
    structure = {"n_atoms": n, "n_edges": e}
    return Case(name, label, settings, phases, (preset,), structure=structure)


def _models(preset: str, n: int, e: int, mul: int, lmax: int) -> list[Case]:
    few = ("forward", "forces")
    return [
        _model("gate_points_2102", preset, n, e, mul, lmax, few if preset == "smoke" else MODEL),
        _model("v2106_simple_network", preset, n, e, mul, lmax),
        _model("v2106_attributed_network", preset, n, e, mul, lmax, few),
    ]


def _all() -> list[Case]:
    return [
        *_operations("smoke", 40),
        _convolution("smoke", 20, 200, 8, 2),
        _radial("smoke", 20, 200, 8, 1),
        *_models("smoke", 8, 40, 4, 1),
        _model("potential", "smoke", 8, 40, 4, 1, POTENTIAL),
        *_operations("full", 2000),
        _convolution("full", 1000, 15030, 32, 2, both=True),
        _convolution("full", 216, 6048, 128, 2),
        _convolution("full", 500, 6000, 32, 3),
        _radial("full", 1000, 15030, 32, 2),
        *_models("full", 64, 688, 32, 2),
        _model("potential", "full", 64, 688, 32, 2, POTENTIAL),
        _model("potential", "full", 1000, 15030, 32, 2, POTENTIAL),
        _model("cold_start", "full", 64, 688, 32, 2, ("cold",)),
        *_operations("gpu", 10000),
        _convolution("gpu", 2000, 100_000, 128, 1),
        _convolution("gpu", 2000, 100_000, 128, 2),
        _convolution("gpu", 2000, 100_000, 64, 3),
        _convolution("gpu", 20_000, 1_000_000, 64, 2),
        _radial("gpu", 2000, 100_000, 128, 2),
        *_models("gpu", 512, 7274, 32, 2),
        _model("potential", "gpu", 64, 688, 32, 2, POTENTIAL),
        _model("potential", "gpu", 512, 7274, 32, 2, POTENTIAL),
        _model("potential", "gpu", 1000, 15030, 32, 2, POTENTIAL),
        _model("cold_start", "gpu", 64, 688, 32, 2, ("cold",)),
    ]


CASES = tuple(_all())
NAMES = tuple(dict.fromkeys(case.name for case in CASES))


def chosen(
    preset: str, names: Sequence[str] | None, phases: Sequence[str] | None
) -> list[tuple[Case, list[str]]]:
    """Cases of a preset with the phases that are wanted of each.

    Args:
        preset: "smoke", "full" or "gpu".
        names: of cases; None: all. A name may be followed by a colon and a part of the label.
        phases: None: all.

    Raises:
        ValueError: nothing is left.
    """
    found = []
    for case in CASES:
        if preset not in case.presets or (names and not any(_fits(case, n) for n in names)):
            continue
        wanted = [p for p in case.phases if not phases or p in phases]
        if wanted:
            found.append((case, wanted))
    if not found:
        raise ValueError(
            f"preset {preset} has nothing for the cases {names} and the phases {phases}; cases: "
            f"{', '.join(NAMES)}; phases: {', '.join(PHASES)}"
        )
    return found


def _fits(case: Case, wanted: str) -> bool:
    name, _, part = wanted.partition(":")
    return case.name == name and part in case.label
