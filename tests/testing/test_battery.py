"""Every exported model passes every check with every kind of kernels."""

from __future__ import annotations

import typing

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from mlpot.models import Potential, PotentialConfig
from mlpot.testing import CHECKS, available_backends, run_battery

_SMALL = {"channels": 4, "lmax": 2}


def backbones() -> list[type]:
    """Configurations of all backbones that a potential takes."""
    annotation = PotentialConfig.model_fields["model"].annotation
    return list(typing.get_args(annotation)) or [annotation]


def small(backbone: type, layers: int, numbers=(1, 8), radial: str = "auto") -> Potential:
    sizes = {**_SMALL, "layers": layers, "radial": radial}
    model = backbone(**{k: v for k, v in sizes.items() if k in backbone.model_fields})
    mx.random.seed(layers)
    return Potential(
        PotentialConfig(
            numbers=list(numbers),
            cutoff=3.0,
            model=model,
            E0s={1: -13.6, 8: -2040.3},
            avg_num_neighbors=30.0,
        )
    )


# The check "backends" compares all kernels at both depths, so each depth needs one of them only.
@pytest.mark.parametrize(
    ("layers", "backend", "radial"),
    [(1, "reference", "exact"), (2, available_backends()[-1], "table")],
)
@pytest.mark.parametrize("backbone", backbones(), ids=lambda b: b.__name__)
def test_model_passes_every_check(backbone, layers, backend, radial):
    results = run_battery(small(backbone, layers, radial=radial), backends=[backend])
    assert [r.check for r in results] == list(CHECKS)
    assert [f"{r.check}: {r.message}" for r in results if not r.passed] == []


def test_potential_is_left_as_it_was():
    potential = small(backbones()[0], 1)
    before = {k: np.array(v) for k, v in tree_flatten(potential.parameters())}
    E0s = potential._E0s.copy()
    run_battery(potential, ["forces", "float32 noise"], ["reference"])
    after = dict(tree_flatten(potential.parameters()))
    assert potential.dtype == mx.float32
    assert all(np.array_equal(before[k], np.array(after[k])) for k in before)
    np.testing.assert_array_equal(potential._E0s, E0s)


def test_unknown_names_are_refused():
    potential = small(backbones()[0], 1)
    with pytest.raises(ValueError, match="unknown checks"):
        run_battery(potential, ["curl"])
    with pytest.raises(ValueError, match="choose one of"):
        run_battery(potential, ["forces"], ["gpu"])
