"""The C++ convolution with weights from a table against einsum in float64."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from random_convolutions import (
    CASES,
    GRAPHS,
    TOLERANCE,
    cancels,
    random_edges,
    random_spec,
    relative_error,
)
from seeds import generator

from mlpot.kernels import EdgeIndex, native

#: n_coefficients, n_rows, distance of the first rows (0: every edge combines all rows).
TABLES = {
    "Hermite": (6, 3 * 9, 3),
    "one interval": (6, 6, 3),
    "linear": (2, 40, 1),
    "one row": (1, 5, 1),
    "seven": (7, 30, 1),
    "last layer": (64, 64, 0),
    "small layer": (5, 5, 0),
}
N_COEFFICIENTS, N_ROWS, STEP = range(3)


class Problem:
    """Random arrays of one convolution with a table; see `TABLES` for the table."""

    def __init__(self, spec, table, graph, dtype, rng) -> None:
        n_nodes, n_edges = graph
        self.spec, self.rng = spec, rng
        self.n_coefficients, self.n_rows, step = table
        self.edges = random_edges(n_nodes, n_edges, rng)
        self.rows = None
        if step:
            n_first = (self.n_rows - self.n_coefficients) // step + 1
            self.rows = mx.array((step * rng.integers(0, n_first, n_edges)).astype(np.int32))
        shapes = {
            "x": (n_nodes, spec.dim_x),
            "y": (n_edges, spec.dim_y),
            "h": (n_edges, self.n_coefficients),
            "table": (self.n_rows, spec.n_weights),
            "out": (n_nodes, spec.dim_out),
            "w": (n_edges, spec.n_weights),
        }
        self.arrays = {k: mx.array(rng.normal(size=s), dtype=dtype) for k, s in shapes.items()}

    def run(self, *targets: str) -> list[np.ndarray]:
        with mx.stream(mx.cpu):
            found = native.radial_convolution(
                self.spec,
                targets,
                self.arrays,
                self.edges,
                self.rows,
                self.n_coefficients,
                self.n_rows,
            )
            mx.eval(found)  # numpy would swallow an error of the evaluation
            return [np.array(a) for a in found]

    def weights(self, target: str) -> np.ndarray:
        sizes = (self.n_coefficients, self.n_rows)
        with mx.stream(mx.cpu):
            found = native.edge_weights(target, self.arrays, self.rows, *sizes)
            mx.eval(found)
            return np.array(found)

    def all(self) -> dict[tuple[str, ...], list[np.ndarray]]:
        found = {targets: self.run(*targets) for targets in native.RADIAL_TARGETS}
        return found | {("weights", t): [self.weights(t)] for t in ("w", "h", "table")}

    def want(self, of: Callable = lambda a: a) -> dict[str, np.ndarray]:
        """All gradients by einsum in float64; with `np.square` for ``of`` sums of squares."""
        a = {k: of(np.array(v, dtype=np.float64)) for k, v in self.arrays.items()}
        first = np.zeros(len(a["h"]), int) if self.rows is None else np.array(self.rows)
        rows = first[:, None] + np.arange(self.n_coefficients)
        w = np.einsum("em,emc->ec", a["h"], a["table"][rows])
        senders, receivers = np.array(self.edges.senders), np.array(self.edges.receivers)
        found = {k: np.zeros_like(a[k]) for k in ("x", "y", "h", "table", "out")}
        w_bar = np.zeros_like(w)
        for p in self.spec.paths:
            to_x, to_out, c = p.x_columns(), p.out_columns(), of(p.coefficients)
            to_y = slice(p.y_offset, p.y_offset + p.d2)
            to_w = slice(p.w_offset, p.w_offset + p.mul)
            xe, ge = a["x"][senders][:, to_x], a["out"][receivers][:, to_out]
            ye, we = a["y"][:, to_y], w[:, to_w]
            message = np.einsum("ijk,ec,eic,ej->ekc", c, we, xe, ye)
            back = np.einsum("ijk,ec,ekc,ej->eic", c, we, ge, ye)
            for e in range(len(first)):
                found["out"][receivers[e], to_out] += message[e]
                found["x"][senders[e], to_x] += back[e]
            found["y"][:, to_y] += np.einsum("ijk,ec,eic,ekc->ej", c, we, xe, ge)
            w_bar[:, to_w] += np.einsum("ijk,eic,ej,ekc->ec", c, xe, ye, ge)
        found["h"] = np.einsum("ec,emc->em", w_bar, a["table"][rows])
        np.add.at(found["table"], rows, np.einsum("em,ec->emc", a["h"], w_bar))
        found["weights w"] = w
        found["weights h"] = np.einsum("ec,emc->em", a["w"], a["table"][rows])
        found["weights table"] = np.zeros_like(a["table"])
        np.add.at(found["weights table"], rows, np.einsum("em,ec->emc", a["h"], a["w"]))
        return found


def drawn(*arguments) -> Problem:
    """A random problem none of whose results cancels."""
    for _ in range(100):
        problem = Problem(*arguments)
        if not cancels(problem.want(), problem.want(np.square)):
            return problem
    raise AssertionError("a hundred problems whose results cancel")


def check(problem: Problem, dtype) -> None:
    want, got = problem.want(), problem.all()
    for targets, values in got.items():
        names = [" ".join(targets)] if targets[0] == "weights" else targets
        for name, value in zip(names, values, strict=True):
            assert relative_error(value, want[name]) <= TOLERANCE[dtype], (targets, name)
    # One pass for two gives what each alone gives.
    assert np.array_equal(got["y", "h"][0], got[("y",)][0])
    assert np.array_equal(got["y", "h"][1], got[("h",)][0])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
@pytest.mark.parametrize("graph", [g for g in GRAPHS if g != "no edge"])
@pytest.mark.parametrize("case", [c for c in CASES if CASES[c]])
def test_values_are_those_of_einsum(case, graph, dtype):
    rng = generator()
    spec = random_spec(CASES[case], rng, gap=int(rng.integers(0, 3)))
    check(drawn(spec, TABLES["Hermite"], GRAPHS[graph], dtype, rng), dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("case", ["unequal blocks", "one channel"])
def test_any_table(table, case, dtype):
    rng = generator()
    spec = random_spec(CASES[case], rng)
    check(drawn(spec, TABLES[table], (20, 150), dtype, rng), dtype)


@pytest.mark.parametrize("table", ["Hermite", "last layer"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
def test_same_bits_in_two_runs_and_with_any_number_of_threads(table, dtype):
    rng = generator()
    spec = random_spec(CASES["all l up to 2"], rng)
    problem = Problem(spec, TABLES[table], (300, 3000), dtype, rng)
    before = native.num_threads()
    results = []
    try:
        for n in (1, 2, 2, 3):
            native.set_num_threads(n)
            results.append(problem.all())
    finally:
        native.set_num_threads(before)
    for other in results[1:]:
        for targets, values in results[0].items():
            for a, b in zip(values, other[targets], strict=True):
                assert a.tobytes() == b.tobytes(), targets


def test_not_a_number_in_other_rows_and_columns_does_not_matter():
    rng = generator()
    spec = random_spec([(1, 1, 1, 5), (0, 2, 2, 5)], rng)
    problem = Problem(spec, TABLES["Hermite"], (6, 30), mx.float32, rng)
    problem.rows = mx.zeros((30,), dtype=mx.int32)
    clean = problem.all()
    row, column = mx.arange(27)[:, None], mx.arange(spec.n_weights)[None, :]
    table = problem.arrays["table"]
    problem.arrays["table"] = mx.where(row >= 6, mx.array(np.nan), table)
    for targets, values in problem.all().items():
        for a, b in zip(values, clean[targets], strict=True):
            assert np.array_equal(a, b), targets
    problem.arrays["table"] = mx.where(column >= 5, mx.array(np.nan), table)
    first = spec.paths[0].out_columns().ravel()
    got = problem.run("out")[0]
    assert np.array_equal(got[:, first], clean[("out",)][0][:, first])
    assert np.isnan(got[:, spec.paths[1].out_columns().ravel()]).any()


@pytest.mark.parametrize("rows", [[-1, 0, 0], [0, 22, 0]])
def test_rows_outside_the_table_give_nan(rows, capfd):
    rng = generator()
    problem = Problem(
        random_spec(CASES["one channel"], rng), TABLES["Hermite"], (4, 3), mx.float32, rng
    )
    problem.rows = mx.array(rows, dtype=mx.int32)
    bad = max(rows) or min(rows)
    message = f"row of the table {bad} is outside 0..21"
    for targets in native.RADIAL_TARGETS:
        assert all(np.isnan(np.array(result)).all() for result in problem.run(*targets))
        assert message in capfd.readouterr().err
    for target in ("w", "h", "table"):
        assert np.isnan(np.array(problem.weights(target))).all()
        assert message in capfd.readouterr().err


def test_senders_outside_give_nan(capfd):
    rng = generator()
    problem = Problem(
        random_spec(CASES["one channel"], rng), TABLES["Hermite"], (4, 9), mx.float32, rng
    )
    good = problem.edges.arrays()
    problem.edges = EdgeIndex(**{**good, "senders": good["senders"] + 4})
    assert all(np.isnan(np.array(result)).all() for result in problem.run("table"))
    assert "is outside 0..3; the result is NaN" in capfd.readouterr().err


def test_wrong_arrays_are_refused():
    rng = generator()
    problem = Problem(
        random_spec(CASES["one channel"], rng), TABLES["Hermite"], (4, 9), mx.float32, rng
    )
    good, rows = dict(problem.arrays), problem.rows
    assert rows is not None

    def changed(**other):
        problem.arrays = {**good, **other}

    changed(table=good["table"][:-1])
    with pytest.raises(ValueError, match="wrong shape"):
        problem.run("out")
    with pytest.raises(ValueError, match="wrong shape"):
        problem.weights("w")
    changed(h=good["h"].astype(mx.float64))
    with pytest.raises(ValueError, match="one dtype"):
        problem.run("out")
    changed()
    problem.rows = rows[:-1]
    with pytest.raises(ValueError, match="do not belong together"):
        problem.run("x")
    with pytest.raises(ValueError, match="one int32 for each edge"):
        problem.weights("h")
    problem.rows = None
    with pytest.raises(ValueError, match="wrong number of rows"):
        problem.run("out")
    with pytest.raises(ValueError, match="no map"):
        problem.run("x", "y")


def test_vmap_is_a_loop_over_the_batch():
    rng = generator()
    spec = random_spec(CASES["48 and 64"], rng)
    problem = Problem(spec, TABLES["Hermite"], (5, 12), mx.float64, rng)
    a = problem.arrays
    with mx.stream(mx.cpu):
        batch = mx.stack([a["h"], 2 * a["h"], a["h"] - 1], axis=1)

        def of_h(h):
            return native.radial_convolution(
                spec, ("y", "h"), {**a, "h": h}, problem.edges, problem.rows, 6, 27
            )

        mapped = mx.vmap(of_h, in_axes=1)(batch)
        for i in range(3):
            for got, want in zip(mapped, of_h(batch[:, i]), strict=True):
                assert np.array_equal(np.array(got[i]), np.array(want))
