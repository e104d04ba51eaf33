"""The choice of a backend and the report of it."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlpot import kernels
from mlpot.kernels import dispatch


@pytest.fixture(autouse=True)
def _empty_report():
    kernels.clear_report()
    yield
    kernels.clear_report()


def can():
    return None


def cannot():
    return "too small"


def slower():
    return dispatch.Slower("below 100 rows")


def test_first_that_can_is_taken_and_the_reasons_are_kept():
    assert dispatch.choose("p", (("cuda", cannot), ("native", can))) == "native"
    assert dispatch.choose("p", (("cuda", cannot), ("native", can))) == "native"
    (choice,) = kernels.report()
    assert choice == kernels.Choice("p", "native", (("cuda", "too small"),), 2)
    assert "cuda: too small" in str(kernels.report())


def test_nothing_to_report():
    assert str(kernels.report()) == "no primitive has run yet"


def test_reference_where_none_can():
    assert dispatch.choose("p", (("native", cannot),)) == "reference"
    assert kernels.report()[0].refusals == (("native", "too small"),)


def test_forcing():
    offers = (("native", slower),)
    assert dispatch.choose("p", offers) == "reference"
    assert dispatch.choose("p", offers, use_custom_kernel=True) == "native"
    assert dispatch.choose("p", (("native", can),), use_custom_kernel=False) == "reference"
    with kernels.forced(True):
        assert dispatch.choose("p", offers) == "native"
        assert dispatch.choose("p", offers, use_custom_kernel=False) == "reference"
        with kernels.forced(None):
            assert dispatch.choose("p", offers) == "native"
    with pytest.raises(ValueError, match="native: too small"):
        dispatch.choose("p", (("native", cannot),), use_custom_kernel=True)


@pytest.mark.parametrize(("asked", "expected"), [("auto", "native"), ("reference", "reference")])
def test_asked_for(asked, expected):
    with kernels.use(asked):
        assert dispatch.choose("p", (("native", can),)) == expected


def test_primitives_report_what_ran():
    x = mx.array(np.linspace(-1, 1, 5), dtype=mx.float32)
    index = mx.array([0, 0, 1, 1, 1])
    with kernels.use("reference"):
        mx.eval(kernels.silu(x), kernels.segment_sum(x, index, 2), kernels.gather(x, index))
    ran = {choice.primitive: choice.backend for choice in kernels.report()}
    assert ran == {
        "elementary.silu": "reference",
        "segment_sum": "reference",
        "gather": "reference",
    }
    assert kernels.report()[0].refusals == (("native", "mlpot.kernels.use('reference')"),)


@pytest.mark.parametrize("name", ["cuda", "metal"])
def test_missing_device_is_named(name):
    if getattr(mx, name).is_available():
        with kernels.use(name):
            assert kernels.backend.chosen() == name
    else:
        message = f"{name} kernels are not available"
        with pytest.raises(ValueError, match=message), kernels.use(name):
            pass


def test_forcing_does_not_ask_for_kernels_where_there_is_nothing_to_compute():
    nothing = (("native", lambda: dispatch.Nothing("no rows")),)
    assert dispatch.choose("p", nothing, use_custom_kernel=True) == "reference"
    assert kernels.report()[0].refusals == (("native", "no rows"),)


@pytest.mark.parametrize("asked", ["", "auto", "native", "reference"])
def test_the_environment_chooses_unless_a_block_does(asked, monkeypatch):
    monkeypatch.setenv("MLPOT_KERNELS", asked)
    expected = "reference" if asked == "reference" else "native"
    assert dispatch.choose("p", (("native", can),)) == expected
    with kernels.use("reference"):
        assert dispatch.choose("p", (("native", can),)) == "reference"
    with kernels.use("native"):
        assert dispatch.choose("p", (("native", can),)) == "native"


def test_wrong_names_in_the_environment_are_refused(monkeypatch):
    monkeypatch.setenv("MLPOT_KERNELS", "fast")
    with pytest.raises(ValueError, match="MLPOT_KERNELS is 'fast'; choose one of auto, native"):
        dispatch.choose("p", (("native", can),))


def test_kernels_that_the_environment_asks_for_in_vain_are_refused(monkeypatch):
    monkeypatch.setenv("MLPOT_KERNELS", "native")
    monkeypatch.setattr("mlpot.kernels.native.why_not", lambda: "no compiler")
    with pytest.raises(ValueError, match="kernels are not available: no compiler"):
        dispatch.choose("p", (("native", can),))
