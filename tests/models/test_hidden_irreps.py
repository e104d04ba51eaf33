"""Which blocks the layers of the point models have: e3nn's, as weights depend on them."""

from __future__ import annotations

from mlpot import o3
from mlpot.models import gate_points, v2103, v2106

HIDDEN = "0e+1o+0e"


def inputs_of_last_layer(layers) -> o3.Irreps:
    return layers[-1].irreps_node_input


def test_neighbouring_scalars_become_one_block():
    by_sequence = v2106.MessagePassing(["0e", HIDDEN, "0e"], "0e", "0e+1o", [2], 1.0)
    by_number = v2103.MessagePassing("0e", HIDDEN, "0e", "0e", "0e+1o", 2, [2], 1.0)
    assert inputs_of_last_layer(by_sequence.layers) == o3.Irreps("2x0e+1o")
    assert inputs_of_last_layer(by_number.layers) == o3.Irreps("2x0e+1o")
    assert len(by_number.layers) == 3


def test_gate_points_keeps_them_apart():
    network = gate_points.Network("0e", HIDDEN, "0e", "0e", "0e+1o", 1, 2.0, 3, 1, 4, 1.0, 1.0)
    assert inputs_of_last_layer(network.layers) == o3.Irreps("0e+0e+1o")
