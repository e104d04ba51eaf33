"""All checks by name, and how to run them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps

import mlx.core as mx

from mlpot import kernels
from mlpot.models import Potential

from . import (
    batching,
    first_derivatives,
    invariance,
    limits,
    rounding,
    second_derivatives,
    smoothness,
)
from .backends import available_backends
from .evaluation import precision

Check = Callable[[Potential, int], None]


def _in_float64(check: Check) -> Check:
    """The check on the CPU in float64, with the potential as it was afterwards."""

    @wraps(check)
    def run(potential: Potential, seed: int = 0) -> None:
        with precision(potential, mx.float64):
            check(potential, seed)

    return run


#: Name -> ``check(potential, seed)``, which raises AssertionError with a sentence on a fault.
CHECKS: dict[str, Check] = {
    name: _in_float64(check)
    for name, check in {
        "forces": first_derivatives.forces,
        "stress": first_derivatives.stress,
        "rotation": invariance.rotations,
        "reflection": invariance.reflections,
        "permutation": invariance.permutation,
        "translation": invariance.translation,
        "lattice translation": invariance.lattice_translation,
        "continuity": smoothness.continuity,
        "axes": smoothness.axes,
        "supercell": limits.supercell,
        "isolated atom": limits.isolated_atom,
        "beyond cutoff": limits.beyond_cutoff,
        "distant atom": limits.third_atom_far_away,
        "batch": batching.batch_members,
        "no leaks": batching.no_leaks,
        "padding": batching.padding,
        "Hessian": second_derivatives.hessian,
        "HVP": second_derivatives.products,
        "derivative modes": second_derivatives.modes_agree,
        "backends": batching.backends_agree,
        "float32 noise": rounding.float32_noise,
    }.items()
}


@dataclass(frozen=True)
class CheckResult:
    """Outcome of one check with one kind of kernels.

    Args:
        check: name in `CHECKS`.
        backend: kernels that it ran with.
        passed: whether all was right.
        message: what was wrong, empty if nothing.
        seconds: how long it took.
    """

    check: str
    backend: str
    passed: bool
    message: str
    seconds: float


def run_battery(
    potential: Potential,
    checks: Iterable[str] | None = None,
    backends: Iterable[str] | None = None,
    seed: int = 0,
) -> list[CheckResult]:
    """Run checks on a potential, in float64 on the CPU; the potential is left as it was.

    Args:
        potential: any potential, your own subclass too.
        checks: names in `CHECKS`; all by default.
        backends: names for `mlpot.kernels.use`; all that this machine has by default.
        seed: of the random structures.

    Returns:
        One result for each backend and check.

    Raises:
        ValueError: an unknown check or backend.

    Examples:
        >>> failed = [r for r in run_battery(potential) if not r.passed]
    """
    names = list(CHECKS) if checks is None else list(checks)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        raise ValueError(f"unknown checks {unknown}; choose from {list(CHECKS)}")
    results = []
    for backend in available_backends() if backends is None else list(backends):
        with kernels.use(backend):
            for name in names:
                start, message = time.perf_counter(), ""
                try:
                    CHECKS[name](potential, seed)
                except AssertionError as error:
                    message = str(error) or "an assertion without a message failed"
                took = time.perf_counter() - start
                results.append(CheckResult(name, backend, not message, message, took))
    return results
