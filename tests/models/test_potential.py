from __future__ import annotations

import math
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from mlpot import derivatives, graph, o3
from mlpot.models import PointConvolution, Potential, PotentialConfig, V2106Config
from mlpot.models.message_passing import gate_for

SMALL = V2106Config(channels=4, lmax=2, layers=1)


def potential(**changes) -> Potential:
    mx.random.seed(0)
    given = {"numbers": [8, 1], "cutoff": 3.0, "model": SMALL, "E0s": {1: -13.6, 8: -2040.5}}
    return Potential(PotentialConfig(**(given | changes)))


def water(dtype=mx.float32):
    xyz = [[0.0, 0.0, 0.1], [0.76, 0.0, -0.48], [-0.76, 0.0, -0.48]]
    return graph.build([8, 1, 1], xyz, cutoff=3.0, dtype=dtype)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_forces_at_initialisation_are_not_zero(layers):
    model = V2106Config(channels=4, lmax=1, layers=layers)
    forces = derivatives.energy_forces_stress(potential(model=model, zbl=False), water()).forces
    assert np.abs(np.array(forces)).max() > 1e-5


def test_isolated_atom_has_exactly_its_reference_energy():
    own = potential()
    for z, energy in own.config.E0s.items():
        alone = graph.build([z], np.ones((1, 3)), cutoff=3.0)
        assert derivatives.energy_forces_stress(own, alone).energy[0] == energy


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("lmax", [0, 1])
def test_atoms_that_are_nowhere_have_no_energy(lmax, wrong):
    """Not that of an atom alone: no comparison may take NaN for far away."""
    own = potential(model=V2106Config(channels=4, lmax=lmax, layers=1), zbl=False)
    built = water()
    for lost in ([0], [0, 1, 2]):
        positions = np.array(built.positions)
        positions[lost] = wrong
        energies = own.node_energies(replace(built, positions=mx.array(positions)))
        assert np.isnan(np.array(energies)).all()


def test_total_energy_adds_reference_energies_in_float64():
    own = potential(E0s={1: -1e4 - 1e-7, 8: -2e5 - 1e-7})
    results = derivatives.energy_forces_stress(own, water())
    reference = -2e5 - 2e4 - 3e-7
    interaction = float(results.interaction_energy[0].item())
    assert results.energy.dtype == np.float64
    assert results.energy[0] == pytest.approx(reference + interaction, abs=1e-10)


def test_unknown_elements_are_named():
    own = potential()
    own.check_elements([1, 8, 0])
    with pytest.raises(ValueError, match=r"does not know C, N; it was made for H, O"):
        own.check_elements([6, 1, 7])


def test_numbers_are_sorted_and_checked():
    assert potential().numbers == [1, 8]
    for numbers in ([], [0], [500]):
        with pytest.raises(ValueError, match=r"empty|not an atomic number"):
            PotentialConfig(numbers=numbers, cutoff=3.0)


def test_scale_multiplies_the_network_only():
    plain = potential(zbl=False).node_energies(water())
    tripled = potential(zbl=False, scale=3.0).node_energies(water())
    np.testing.assert_allclose(np.array(tripled), 3 * np.array(plain), rtol=1e-6)


def test_smoothness_is_that_of_the_roughest_part():
    exact = SMALL.model_copy(update={"radial": "exact"})
    assert potential(model=exact).smoothness == 2
    assert potential(model=exact, zbl=False).smoothness == math.inf
    # Radial tables are twice continuously differentiable.
    assert potential(zbl=False).smoothness == 2


def test_float64_has_float64_constants():
    own = potential()
    before = {k: np.array(v) for k, v in tree_flatten(own.parameters())}
    with mx.stream(mx.cpu):
        single = np.array(own.node_energies(water())).astype(np.float64)
        own.set_dtype(mx.float64)
        double = np.array(own.node_energies(water(mx.float64)))
        turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
        xyz = np.array(water(mx.float64).positions) @ turn
        turned = graph.build([8, 1, 1], xyz, cutoff=3.0, dtype=mx.float64)
        # Constants rounded to float32 would break the symmetry at 1e-8.
        np.testing.assert_allclose(np.array(own.node_energies(turned)), double, atol=1e-13)
    assert own.dtype == mx.float64
    assert double.dtype == np.float64
    np.testing.assert_allclose(single, double, atol=1e-4)
    own.set_dtype(mx.float32)
    after = dict(tree_flatten(own.parameters()))
    assert all(np.array_equal(before[k], np.array(after[k])) for k in before)


def test_convolution_weights_have_the_names_of_e3nn():
    layer = PointConvolution("4x0e", "2x0e", "0e+1o", "3x0e+2x1o", [5, 7], 10.0)
    names = {key.split(".")[0] for key, _ in tree_flatten(layer.parameters())}
    assert names == {"sc", "lin1", "fc", "lin2", "alpha"}
    assert np.all(np.array(layer.alpha.weight) == 0)


def test_gate_keeps_reachable_irreps_in_order():
    edge = o3.Irreps("0e+1o")
    gate = gate_for(o3.Irreps("4x0e"), edge, o3.Irreps("3x0o+3x0e+2x1o+2x1e"), "exact")
    # Scalars and one-forms of the other parity cannot be reached from 4x0e times 0e+1o.
    assert gate.irreps_out == o3.Irreps("3x0e+2x1o")
    assert gate.irreps_in.simplify() == o3.Irreps("5x0e+2x1o")


def test_gate_multiplies_component_major_blocks():
    gate = gate_for(o3.Irreps("4x0e"), o3.Irreps("0e+1o"), o3.Irreps("1x0e+2x1o"), "exact")
    x = np.zeros((1, gate.irreps_in.dim), dtype=np.float32)
    x[0, 3:] = [1, 10, 2, 20, 3, 30]  # ir_mul: component by component, two channels each
    x[0, 1:3] = [1.0, -1.0]
    out = np.array(gate(mx.array(x)))[0]
    ratio = out[1:] / x[0, 3:]
    np.testing.assert_allclose(ratio[::2], ratio[0], rtol=1e-6)
    np.testing.assert_allclose(ratio[1::2], ratio[1], rtol=1e-6)
    assert ratio[0] / ratio[1] == pytest.approx(math.e, rel=1e-5)
