"""Changes of the maps of a convolution with a table against one map after the other."""

from __future__ import annotations

from itertools import chain, combinations

import mlx.core as mx
import numpy as np
import pytest
from random_convolutions import CASES, GRAPHS, TOLERANCE, random_edges, random_spec
from seeds import generator

from mlpot import kernels
from mlpot.kernels import native

ROLES = ("x", "y", "h", "out")
#: n_coefficients, n_rows, distance of the first rows (0: every edge combines all rows).
TABLES = {"Hermite": (6, 3 * 9, 3), "linear": (2, 40, 1), "last layer": (24, 24, 0)}


class Problem:
    """Random arrays of one convolution and changes of them."""

    def __init__(self, spec, table, graph, dtype, rng) -> None:
        n_nodes, n_edges = graph
        n_coefficients, n_rows, step = table
        edges = random_edges(n_nodes, n_edges, rng)
        rows = None
        if step:
            n_first = (n_rows - n_coefficients) // step + 1
            rows = mx.array((step * rng.integers(0, n_first, n_edges)).astype(np.int32))
        self.shapes = {
            "x": (n_nodes, spec.dim_x),
            "y": (n_edges, spec.dim_y),
            "h": (n_edges, n_coefficients),
            "table": (n_rows, spec.n_weights),
            "out": (n_nodes, spec.dim_out),
        }
        self.rng, self.dtype = rng, dtype
        self.arrays = {role: self.random(shape) for role, shape in self.shapes.items()}
        self.spec, self.rest = spec, (edges, rows, n_coefficients, n_rows)

    def random(self, shape) -> mx.array:
        return mx.array(self.rng.normal(size=shape), dtype=self.dtype)

    def needed(self, targets) -> dict[str, mx.array]:
        return {r: a for r, a in self.arrays.items() if len(targets) > 1 or r not in targets}

    def changes(self, roles) -> dict[str, mx.array]:
        return {role: self.random(self.shapes[role]) for role in roles}

    def together(self, targets, changes) -> list[mx.array]:
        return native.radial_changes(self.spec, targets, self.needed(targets), changes, *self.rest)

    def apart(self, targets, changes) -> tuple[list[np.ndarray], list[float]]:
        """Sums of maps with one argument replaced, and how large the terms are."""
        sums, sizes = [], []
        for target in targets:
            total, size = np.zeros(self.shapes[target]), 0.0
            for role, change in changes.items():
                if role != target:
                    arrays = {**self.arrays, role: change}
                    del arrays[target]
                    (found,) = native.radial_convolution(self.spec, (target,), arrays, *self.rest)
                    total += np.array(found)
                    size += np.abs(np.array(found)).max()
            sums.append(total)
            sizes.append(size)
        return sums, sizes


def every_change(targets):
    """All choices of roles that change."""
    roles = [role for role in ROLES if targets != (role,)]
    return chain.from_iterable(combinations(roles, n) for n in range(1, len(roles) + 1))


def check(problem: Problem) -> None:
    for targets in native.CHANGE_TARGETS:
        for roles in every_change(targets):
            changes = problem.changes(roles)
            want, sizes = problem.apart(targets, changes)
            got = problem.together(targets, changes)
            for g, w, size in zip(got, want, sizes, strict=True):
                error = np.abs(np.array(g).astype(np.float64) - w).max(initial=0.0)
                assert error <= 4 * TOLERANCE[problem.dtype] * size, (targets, roles)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
@pytest.mark.parametrize("graph", [g for g in GRAPHS if g != "no edge"])
@pytest.mark.parametrize("case", [c for c in CASES if CASES[c]])
def test_changes_are_sums_of_maps_with_one_argument_replaced(case, graph, dtype):
    rng = generator()
    spec = random_spec(CASES[case], rng, gap=int(rng.integers(0, 3)))
    with mx.stream(mx.cpu):
        check(Problem(spec, TABLES["Hermite"], GRAPHS[graph], dtype, rng))


@pytest.mark.parametrize("table", TABLES)
def test_any_table(table):
    rng = generator()
    spec = random_spec(CASES["unequal blocks"], rng)
    with mx.stream(mx.cpu):
        check(Problem(spec, TABLES[table], (20, 150), mx.float64, rng))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("table", TABLES)
def test_many_vectors_at_once_give_the_bits_of_each(table, axis):
    rng = generator()
    problem = Problem(
        random_spec(CASES["unequal blocks"], rng), TABLES[table], (20, 150), mx.float64, rng
    )
    with mx.stream(mx.cpu):
        for targets in native.CHANGE_TARGETS:
            for roles in every_change(targets):
                batch = [problem.changes(roles) for _ in range(6)]
                many = [mx.stack([one[role] for one in batch], axis=axis) for role in roles]

                def run(*arrays, targets=targets, roles=roles):
                    return problem.together(targets, dict(zip(roles, arrays, strict=True)))

                found = mx.vmap(run, in_axes=(axis,) * len(roles))(*many)
                for i, one in enumerate(batch):
                    alone = problem.together(targets, one)
                    for a, b in zip(found, alone, strict=True):
                        assert np.array_equal(np.array(a[i]), np.array(b)), (targets, roles)
                if len(roles) > 1:  # the first role is the same for all
                    first = (batch[0][roles[0]], *many[1:])
                    found = mx.vmap(run, in_axes=(None, *[axis] * (len(roles) - 1)))(*first)
                    alone = problem.together(targets, {**batch[2], roles[0]: first[0]})
                    for a, b in zip(found, alone, strict=True):
                        assert np.array_equal(np.array(a[2]), np.array(b)), (targets, roles)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
def test_same_bits_with_any_number_of_threads(dtype):
    rng = generator()
    spec = random_spec(CASES["all l up to 2"], rng)
    problem = Problem(spec, TABLES["Hermite"], (300, 3000), dtype, rng)
    changes = {t: problem.changes([r for r in ROLES if t != (r,)]) for t in native.CHANGE_TARGETS}
    before = native.num_threads()
    results = []
    try:
        for n in (1, 2, 3):
            native.set_num_threads(n)
            with mx.stream(mx.cpu):
                results.append(
                    [np.array(a) for t, c in changes.items() for a in problem.together(t, c)]
                )
    finally:
        native.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert a.tobytes() == b.tobytes()


def test_arrays_that_do_not_belong_together_are_refused():
    rng = generator()
    spec = random_spec(CASES["one channel"], rng)
    problem = Problem(spec, TABLES["Hermite"], (4, 9), mx.float64, rng)
    for targets, changes, says in (
        (("x",), problem.changes(("x",)), "changes with its arguments"),
        (("out",), {}, "changes with its arguments"),
        (("table",), problem.changes(("x",)), "changes are known of"),
        (("out",), {"y": problem.random((8, spec.dim_y))}, "wrong shape"),
        (("out",), {"y": mx.zeros(problem.shapes["y"])}, "one dtype"),
    ):
        with mx.stream(mx.cpu), pytest.raises(ValueError, match=says):
            problem.together(targets, changes)


def test_rows_outside_the_table_give_nan(capfd):
    rng = generator()
    spec = random_spec(CASES["one channel"], rng)
    problem = Problem(spec, TABLES["Hermite"], (4, 3), mx.float32, rng)
    edges, _, *sizes = problem.rest
    problem.rest = (edges, mx.array([0, 22, 0], dtype=mx.int32), *sizes)
    for targets in native.CHANGE_TARGETS:
        for found in problem.together(targets, problem.changes(("y", "h"))):
            assert np.isnan(np.array(found)).all()
    assert "row of the table 22 is outside 0..21" in capfd.readouterr().err


def test_tangents_take_one_pass():
    """Forward over reverse mode asks for changes of each map once, and for no map twice."""
    rng = generator()
    spec = random_spec(CASES["one channel"], rng)
    problem = Problem(spec, TABLES["Hermite"], (5, 20), mx.float64, rng)
    edges, rows, _, _ = problem.rest
    with mx.stream(mx.cpu):

        def energy(x, y, h):
            table = problem.arrays["table"]
            return (kernels.radial_convolution(spec, x, y, h, table, rows, edges) ** 2).sum()

        point = [problem.arrays[role] for role in ("x", "y", "h")]
        tangents = [problem.random(p.shape) for p in point]
        kernels.clear_report()
        mx.eval(mx.jvp(mx.grad(energy, argnums=(0, 1, 2)), point, tangents)[1])
    ran = {choice.primitive: choice.calls for choice in kernels.report()}
    for targets in ("out", "x", "y_h"):
        assert ran[f"radial_convolution.changes.{targets}"] == 1
        assert ran[f"radial_convolution.{targets}"] == 1


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
def test_a_map_and_its_change_share_a_pass(dtype):
    rng = generator()
    spec = random_spec(CASES["unequal blocks"], rng)
    problem = Problem(spec, TABLES["Hermite"], (12, 70), dtype, rng)
    edges, rows, _, _ = problem.rest
    with mx.stream(mx.cpu):

        def energy(y, h):
            table, x = problem.arrays["table"], problem.arrays["x"]
            out = kernels.radial_convolution(spec, x, y * y, h * h, table, rows, edges)
            return (out[:, : spec.dim_x // 2] ** 3).sum() + (out**2).sum()

        point = [problem.arrays["y"], problem.arrays["h"]]
        tangents = [problem.random(p.shape) for p in point]

        def derivatives() -> list[mx.array]:
            return mx.jvp(mx.grad(energy, argnums=(0, 1)), point, tangents)[1]

        plain = derivatives()
        found = native.share_passes(derivatives())
        for a, b in zip(found, plain, strict=True):
            assert np.array(a).tobytes() == np.array(b).tobytes()
        # The convolution, and its adjoints to y and h.
        assert native.values.native_module().share_passes(derivatives())[1] == 2
        # Without tangents nothing is shared.
        first = list(mx.grad(energy, argnums=(0, 1))(*point))
        assert native.values.native_module().share_passes(first)[1] == 0
