"""All derivatives of a scalar that is linear in each of its arguments.

With T(a_1, ..., a_n) linear in each argument ("role"), the gradient of T to one role does not
contain that role, and every derivative of any order is a sum of such gradients with some roles
replaced by tangents or cotangents. So the gradients are the only values that a backend computes.

An operation out = f(a, b) that is linear in each argument is the gradient to g of T = <g, f(a, b)>.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from .changes import Arrays, ChangeFunctions, Changes, Terms, terms
from .edge_tangents import moved_edges
from .primitive import CustomFunction, as_tuple, fixed

#: ``evaluate(targets, arrays, index)``: the gradients of T to each target, values only.
Evaluate = Callable[[tuple[str, ...], Arrays, Sequence[mx.array]], Sequence[mx.array]]


@dataclass(eq=False)
class _Call:
    """One evaluation that serves several wanted gradients."""

    targets: tuple[str, ...]
    arrays: dict[str, mx.array]
    results: Sequence[Any] = field(default_factory=list)

    def takes(self, target: str, arrays: Arrays, joint: Sequence[frozenset[str]]) -> bool:
        """Whether the gradient to ``target`` at ``arrays`` may share this evaluation.

        A gradient does not contain its own role, so there the others' value holds.
        """
        both = {*self.targets, target}
        if target in self.targets or not any(both <= group for group in joint):
            return False
        return all(
            role not in self.arrays or role == target or self.arrays[role] is value
            for role, value in arrays.items()
        )

    def add(self, target: str, arrays: Arrays) -> None:
        self.targets = (*self.targets, target)
        self.arrays.update(arrays)


class MultilinearForm:
    """A scalar that is linear in each role, and the gradients of it as differentiable functions.

    Args:
        roles: names of the arguments.
        evaluate: computes gradients in plain values. It gets each role that the targets need: all
            but the target itself, all where there are several targets.
        joint: groups of roles whose gradients are computed in one evaluation where they are
            wanted together, as in the rules of differentiation.
        on_edges: roles with one row for each edge of the list that ``index`` begins with.
        changes: computes sums of gradients in one evaluation, if there is such a thing.
    """

    def __init__(
        self,
        roles: Sequence[str],
        evaluate: Evaluate,
        joint: Sequence[Sequence[str]] = (),
        on_edges: Sequence[str] = (),
        changes: Changes | None = None,
    ) -> None:
        self.roles = tuple(roles)
        self._evaluate = evaluate
        self._joint = [frozenset(group) for group in joint]
        self._on_edges = frozenset(on_edges)
        self._changes = None if changes is None else ChangeFunctions(changes, self)
        self._functions: dict[tuple[str, ...], Callable] = {}

    def gradient(self, target: str, arrays: Arrays, index: Sequence[mx.array] = ()) -> mx.array:
        """Gradient of T to a role, differentiable in all others.

        Args:
            target: the role.
            arrays: the other roles.
            index: integer arrays, handed on to ``evaluate``.
        """
        return self._compute([(target, arrays)], index)[0]

    def _compute(
        self, wanted: Sequence[tuple[str, Arrays]], index: Sequence[mx.array]
    ) -> list[mx.array]:
        """Gradients, in as few evaluations as the groups allow."""
        calls: list[_Call] = []
        place: list[tuple[_Call, str]] = []
        for target, arrays in wanted:
            arrays = {role: a for role, a in arrays.items() if role != target}
            for call in calls:
                if call.takes(target, arrays, self._joint):
                    call.add(target, arrays)
                    break
            else:
                call = _Call((target,), arrays)
                calls.append(call)
            place.append((call, target))
        for call in calls:
            call.targets = tuple(role for role in self.roles if role in call.targets)
            given = [call.arrays[role] for role in self.needed(call.targets)]
            call.results = as_tuple(self._function(call.targets)(*given, *index))
        return [call.results[call.targets.index(target)] for call, target in place]

    def needed(self, targets: tuple[str, ...]) -> tuple[str, ...]:
        """The roles that gradients to these are a function of."""
        return tuple(role for role in self.roles if len(targets) > 1 or role not in targets)

    def sums(self, wanted: Terms, index: Sequence[mx.array]) -> list[Any]:
        """For each entry the sum of its gradients; None where it has none."""
        values = iter(self._compute([term for entry in wanted for term in entry], index))
        sums: list[Any] = []
        for entry in wanted:
            total = None
            for _ in entry:
                value = next(values)
                total = value if total is None else total + value
            sums.append(total)
        return sums

    def _tangents(
        self,
        targets: tuple[str, ...],
        arrays: Arrays,
        given: Mapping[str, mx.array],
        index: Sequence[mx.array],
    ) -> list[Any]:
        """Tangents of the gradients to the targets from those of roles; None where there is none.

        Tangents of edges that are zero but on a few are taken over these alone.
        """

        def sums(arrays: Arrays, given: Arrays, index: Sequence[mx.array]) -> list[Any]:
            if self._changes and given:
                return self._changes(targets, arrays, given, index)
            return self.sums(terms(targets, arrays, given), index)

        local = {role: t for role, t in given.items() if role in self._on_edges}
        moved = moved_edges(index[0].shape[0]) if local else None
        if moved is None:
            return sums(arrays, given, index)
        everywhere = sums(arrays, {r: t for r, t in given.items() if r not in local}, index)
        near = {r: moved.rows(a) if r in self._on_edges else a for r, a in arrays.items()}
        few = sums(near, {r: moved.rows(t) for r, t in local.items()}, moved.index(index))
        total: list[Any] = []
        for target, one, other in zip(targets, everywhere, few, strict=True):
            if other is not None and target in self._on_edges:
                other = moved.spread(other)
            both = [part for part in (one, other) if part is not None]
            total.append(sum(both[1:], both[0]) if both else None)
        return total

    def _function(self, targets: tuple[str, ...]) -> Callable:
        """The gradients to the targets as a function of the roles they need, then indices."""
        if targets in self._functions:
            return self._functions[targets]
        needed = self.needed(targets)
        n_arrays = len(needed)

        @CustomFunction
        def function(*args: Any):
            arrays = {r: fixed(a) for r, a in zip(needed, args[:n_arrays], strict=True)}
            results = self._evaluate(targets, arrays, args[n_arrays:])
            return results[0] if len(targets) == 1 else list(results)

        @function.vjp
        def _(primals, cotangents, _outputs):
            arrays = dict(zip(needed, primals[:n_arrays], strict=True))
            given = dict(zip(targets, as_tuple(cotangents), strict=True))
            index = primals[n_arrays:]
            terms = [
                [(role, {**arrays, target: c}) for target, c in given.items() if target != role]
                for role in needed
            ]
            return (*self.sums(terms, index), *(mx.zeros_like(i) for i in index))

        @function.jvp
        def _(primals, tangents):
            arrays = dict(zip(needed, primals[:n_arrays], strict=True))
            given = {
                r: t for r, t in zip(needed, tangents[:n_arrays], strict=True) if t is not None
            }
            index = primals[n_arrays:]
            sums = self._tangents(targets, arrays, given, index)
            if any(s is None for s in sums):
                values: Any = as_tuple(function(*primals))
                zeros = [mx.zeros_like(v) for v in values]
                sums = [z if s is None else s for s, z in zip(sums, zeros, strict=True)]
            return sums[0] if len(targets) == 1 else tuple(sums)

        self._functions[targets] = function
        return function
