"""How gradients of a multilinear form change with their arguments, in one evaluation.

The derivative of a gradient of T along changes of several roles is a sum of gradients in each of
which one role is replaced by its change (`multilinear_form`). What the terms have in common is read
and computed once where a backend evaluates the sum: in forward over reverse mode that is every
tangent of a convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import mlx.core as mx

from .primitive import CustomFunction, as_tuple, fixed

Arrays = Mapping[str, mx.array]
#: Gradients to be added up: for each the role, and the other roles.
Terms = Sequence[Sequence[tuple[str, Arrays]]]


@runtime_checkable
class Changes(Protocol):
    """Values of sums of gradients that differ in one role each.

    For each target the sum over ``changes`` of the gradient with the role of this name replaced;
    a change of the target's own role does not count.
    """

    def takes(self, targets: tuple[str, ...], arrays: Arrays, changes: Arrays) -> bool:
        """Whether these can be computed."""
        ...

    def __call__(
        self,
        targets: tuple[str, ...],
        arrays: Arrays,
        changes: Arrays,
        index: Sequence[mx.array],
    ) -> Sequence[mx.array]:
        """The sums; ``arrays`` are all roles that the targets need."""
        ...


class Form(Protocol):
    """What is needed of `MultilinearForm`."""

    roles: tuple[str, ...]

    def needed(self, targets: tuple[str, ...]) -> tuple[str, ...]:
        """The roles that gradients to these are a function of."""
        ...

    def sums(self, terms: Terms, index: Sequence[mx.array]) -> list[Any]:
        """For each entry the sum of its gradients; None where it has none."""
        ...


def terms(
    targets: Sequence[str], arrays: Arrays, given: Arrays
) -> list[list[tuple[str, dict[str, mx.array]]]]:
    """For each target the gradients to it with one role replaced by what is given for it."""
    return [
        [(target, {**arrays, role: t}) for role, t in given.items() if role != target]
        for target in targets
    ]


class ChangeFunctions:
    """The sums as differentiable functions.

    Args:
        evaluate: computes values.
        form: the form whose gradients are added up; it computes what ``evaluate`` does not take,
            and the derivatives.
    """

    def __init__(self, evaluate: Changes, form: Any) -> None:
        self._evaluate = evaluate
        self._form: Form = form
        self._functions: dict[tuple[tuple[str, ...], tuple[str, ...]], Callable] = {}

    def __call__(
        self,
        targets: tuple[str, ...],
        arrays: Arrays,
        given: Arrays,
        index: Sequence[mx.array],
    ) -> list[Any]:
        """For each target the sum of its `terms`; None where it has none.

        Args:
            targets: the roles that gradients are wanted to.
            arrays: all roles that these need.
            given: changes of some of them.
            index: integer arrays.
        """
        if not self._evaluate.takes(targets, arrays, given):
            return self._form.sums(terms(targets, arrays, given), index)
        changed = tuple(role for role in self._form.roles if role in given)
        key = (targets, changed)
        if key not in self._functions:
            self._functions[key] = self._function(*key)
        needed = (arrays[role] for role in self._form.needed(targets))
        return list(as_tuple(self._functions[key](*needed, *(given[r] for r in changed), *index)))

    def _function(self, targets: tuple[str, ...], changed: tuple[str, ...]) -> Callable:
        """The sums as a function of the roles needed, the changes, then indices.

        With cotangents c of the sums, <c, sums> is the sum over targets t and changed roles r != t
        of T with t replaced by c_t and r by its change. It is linear in all of them, so
        derivatives are gradients of T with two roles replaced.
        """
        evaluate, form = self._evaluate, self._form
        needed = form.needed(targets)
        n_arrays, n_floats = len(needed), len(needed) + len(changed)

        def parted(args: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
            arrays = dict(zip(needed, args[:n_arrays], strict=True))
            given = dict(zip(changed, args[n_arrays:n_floats], strict=True))
            return arrays, given, list(args[n_floats:])

        @CustomFunction
        def function(*args: Any):
            arrays, given, index = parted(args)
            arrays = {role: fixed(a) for role, a in arrays.items()}
            given = {role: fixed(a) for role, a in given.items()}
            found = evaluate(targets, arrays, given, index)
            return found[0] if len(targets) == 1 else list(found)

        @function.vjp
        def _(primals, cotangents, _outputs):
            arrays, given, index = parted(primals)
            c = dict(zip(targets, as_tuple(cotangents), strict=True))
            pairs = [(t, r) for t in targets for r in changed if r != t]
            wanted = [
                [(role, {**arrays, r: given[r], t: c[t]}) for t, r in pairs if role not in (t, r)]
                for role in needed
            ]
            wanted += [
                [(role, {**arrays, t: c[t]}) for t in targets if t != role] for role in changed
            ]
            found = form.sums(wanted, index)
            grads = [
                mx.zeros_like(p) if g is None else g
                for g, p in zip(found, primals[:n_floats], strict=True)
            ]
            return (*grads, *(mx.zeros_like(i) for i in index))

        @function.jvp
        def _(primals, tangents):
            arrays, given, index = parted(primals)
            moved, more, _ = parted(tangents)
            more = {role: t for role, t in more.items() if t is not None}
            pairs = [(r, q) for q, t in moved.items() if t is not None for r in changed if r != q]
            wanted = [
                one
                + [
                    (target, {**arrays, r: given[r], q: moved[q]})
                    for r, q in pairs
                    if target not in (r, q)
                ]
                for target, one in zip(targets, terms(targets, arrays, more), strict=True)
            ]
            found = form.sums(wanted, index)
            if any(t is None for t in found):
                values: Any = as_tuple(function(*primals))
                zeros = [mx.zeros_like(v) for v in values]
                found = [z if t is None else t for t, z in zip(found, zeros, strict=True)]
            return found[0] if len(targets) == 1 else tuple(found)

        return function
