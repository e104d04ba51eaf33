"""Where tables are taken in place of radial networks."""

from __future__ import annotations

from typing import Any
from unittest import mock

import mlx.core as mx
import pytest

from mlpot.models import point_networks, radial_strategy, v2103, v2106
from mlpot.models.radial_strategy import (
    LARGEST_TABLE,
    LEAST_EDGES,
    check_strategy,
    takes_table,
)

N_WEIGHTS = 1024
FITS = {name: size // (4 * N_WEIGHTS) for name, size in LARGEST_TABLE.items()}
MANY = 10**7


def taken(backend, n_rows, n_edges, traced=False, asked: Any = "auto"):
    with mock.patch.object(radial_strategy, "_backend", return_value=backend):
        return takes_table(asked, n_rows, N_WEIGHTS, n_edges, mx.float32, traced)


@pytest.mark.parametrize(
    ("backend", "n_rows", "n_edges", "traced", "wanted"),
    [
        ("native", 600, 1, False, True),
        ("native", FITS["native"], MANY, False, True),
        ("native", FITS["native"] + 1, MANY, False, False),
        ("native", 600, 600, True, True),
        ("native", 600, 599, True, False),
        ("cuda", 600, 1, False, True),
        ("cuda", FITS["cuda"], MANY, False, True),
        ("cuda", FITS["cuda"] + 1, MANY, False, False),
        ("cuda", 600, MANY, True, False),
        ("metal", 600, MANY, False, False),
        ("reference", 600, MANY, False, False),
    ],
)
def test_what_auto_takes(backend, n_rows, n_edges, traced, wanted):
    assert taken(backend, n_rows, n_edges, traced) is wanted


@pytest.mark.parametrize("radial", ["tabel", "", "Table"])
def test_unknown_strategies_are_refused(radial):
    with pytest.raises(ValueError, match=f"radial is '{radial}'; choose one of auto, table, exact"):
        check_strategy(radial)


@pytest.mark.parametrize("network", [v2103.SimpleNetwork, v2106.SimpleNetwork])
def test_networks_check_their_strategy(network):
    with mock.patch.object(point_networks, "check_strategy", return_value="table") as check:
        made = network("1x0e", "1x0e", 2.0, 3.0, 6.0, 1, 1, 1, radial="auto")
    check.assert_called_once_with("auto")
    assert made.radial_strategy == "table"


@pytest.mark.parametrize(("asked", "wanted"), [("table", True), ("exact", False)])
def test_what_is_asked_for_is_taken(asked, wanted):
    for backend in LEAST_EDGES:
        assert taken(backend, 600, 1, asked=asked) is wanted
