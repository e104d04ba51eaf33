"""Products of several inputs with permutation symmetries, reduced to irreps."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod, sqrt

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from jaxtyping import Float

from mlpot.kernels import Constant

from .irrep import Irrep
from .irreps import Irreps
from .layout import check_width
from .permutation_formula import SignedPermutations, parse_formula
from .wigner3j import wigner_3j_numpy


class ReducedTensorProducts(nn.Module):
    """Irreps of a tensor with symmetric indices, and the map from products of inputs to them.

    The basis Q is orthonormal: sum over inputs of Q[z, ...] Q[z', ...] = 1 if z = z' else 0.

    Args:
        formula: symmetry of the tensor, such as ``"ij=-ji"`` or ``"ijk=jik=ikj"``.
        filter_ir_out: irreps to keep in the result; all if None.
        filter_ir_mid: irreps to keep while inputs are multiplied one after another; all if None.
        eps: how far from 1 an eigenvalue of the symmetriser may be for its vector to count as
            symmetric.
        irreps: irreps of each index by its letter, ``i="1o"``; indices that are permuted have the
            same irreps, one of them is enough.

    Attributes:
        irreps_in: irreps of each input, in the order of the formula.
        irreps_out: irreps of the result, sorted.

    Raises:
        ValueError: an unreadable formula, an index without irreps or with two different ones, or
            irreps for an index that the formula does not have.
    """

    def __init__(
        self,
        formula: str,
        filter_ir_out: Iterable[str | Irrep] | None = None,
        filter_ir_mid: Iterable[str | Irrep] | None = None,
        eps: float = 1e-9,
        **irreps: str | Irrep | Irreps,
    ) -> None:
        super().__init__()
        indices, group = parse_formula(formula)
        self.irreps_in = tuple(_irreps_of_indices(indices, group, irreps))
        out = None if filter_ir_out is None else {Irrep(ir) for ir in filter_ir_out}
        mid = None if filter_ir_mid is None else {Irrep(ir) for ir in filter_ir_mid}
        blocks: list[tuple[int, Irrep]] = []
        rows: list[np.ndarray] = []
        for ir, tensors in _coupled_bases(self.irreps_in, mid):
            if out is not None and ir not in out:
                continue
            symmetric = _symmetric_combinations(tensors, group, eps)
            blocks.append((len(symmetric), ir))
            rows += list(symmetric)
        self.irreps_out = Irreps(blocks).simplify()
        shape = tuple(ir.dim for ir in self.irreps_in)
        self._basis = Constant(
            np.concatenate(rows, axis=0) if rows else np.zeros((0, *shape), dtype=np.float64)
        )
        self._matrix = Constant(self._basis.values.reshape(self.irreps_out.dim, prod(shape)).T)

    @property
    def change_of_basis(self) -> Float[mx.array, "dim_out ..."]:
        """Q, (irreps_out.dim, dim of the first input, dim of the second, ...), float32."""
        return self._basis(mx.float32)

    def __call__(self, *xs: Float[mx.array, "... _"]) -> Float[mx.array, "... dim_out"]:
        """Sum over the inputs' components of Q times their product.

        Args:
            xs: one array (..., dim) for each index, with dimensions that broadcast.

        Returns:
            (..., irreps_out.dim).

        Raises:
            ValueError: another number of inputs, or a wrong last axis.
        """
        if len(xs) != len(self.irreps_in):
            raise ValueError(f"{len(xs)} inputs were given; the formula has {len(self.irreps_in)}")
        product = None
        for number, (x, irreps) in enumerate(zip(xs, self.irreps_in, strict=True)):
            check_width(f"input {number}", x, irreps)
            if product is None:
                product = x
            else:
                outer = product[..., :, None] * x[..., None, :]
                product = outer.reshape(*outer.shape[:-2], outer.shape[-2] * outer.shape[-1])
        assert product is not None
        return product @ self._matrix(product.dtype)

    def _extra_repr(self) -> str:
        inputs = " x ".join(str(ir) for ir in self.irreps_in)
        return f"{inputs} -> {self.irreps_out}"


def _irreps_of_indices(indices: str, group: SignedPermutations, given: dict) -> list[Irreps]:
    unknown = sorted(set(given) - set(indices))
    if unknown:
        raise ValueError(f"irreps are given for {', '.join(unknown)}, not an index of {indices!r}")
    known = {letter: Irreps(irreps) for letter, irreps in given.items()}
    for permutation in group:
        for position, other in enumerate(permutation):
            a, b = indices[position], indices[other]
            if a in known and known.setdefault(b, known[a]) != known[a]:
                raise ValueError(
                    f"{a} and {b} are exchanged but have the irreps {known[a]} and {known[b]}; "
                    "give them the same"
                )
    missing = [letter for letter in indices if letter not in known]
    if missing:
        raise ValueError(f'give irreps for the index {missing[0]}, as in {missing[0]}="1o"')
    return [known[letter] for letter in indices]


def _coupled_bases(
    inputs: tuple[Irreps, ...], mid: set[Irrep] | None
) -> list[tuple[Irrep, list[np.ndarray]]]:
    """For every irrep, in order, the ways to reach it: tensors (ir.dim, dims of the inputs).

    Inputs are coupled one after another, every tensor has the squared norm ir.dim.
    """
    paths = _first_input(inputs[0])
    for irreps in inputs[1:]:
        longer = []
        for left, tensor in paths:
            for columns, (mul, ir) in zip(irreps.slices(), irreps, strict=True):
                for result in left * ir:
                    if mid is not None and result not in mid:
                        continue
                    symbols = wigner_3j_numpy(left.l, ir.l, result.l) * sqrt(result.dim)
                    coupled = np.moveaxis(np.tensordot(tensor, symbols, axes=(0, 0)), -1, 0)
                    for u in range(mul):
                        whole = np.zeros((*coupled.shape[:-1], irreps.dim))
                        start = columns.start + u * ir.dim
                        whole[..., start : start + ir.dim] = coupled
                        longer.append((result, whole))
        paths = sorted(longer, key=lambda path: path[0])
    kinds = sorted({ir for ir, _ in paths})
    return [(kind, [tensor for ir, tensor in paths if ir == kind]) for kind in kinds]


def _first_input(irreps: Irreps) -> list[tuple[Irrep, np.ndarray]]:
    identity = np.eye(irreps.dim)
    return [
        (ir, identity[columns.start + u * ir.dim : columns.start + (u + 1) * ir.dim])
        for columns, (mul, ir) in zip(irreps.slices(), irreps, strict=True)
        for u in range(mul)
    ]


def _symmetric_combinations(
    tensors: list[np.ndarray], group: SignedPermutations, eps: float
) -> np.ndarray:
    """(multiplicity, ir.dim, dims of the inputs) orthonormal combinations with the symmetry.

    By Schur's lemma one component of the irrep decides about all. M is the symmetriser between
    the paths; its eigenvectors of eigenvalue 1 are symmetric. The combinations are the rows of
    the projector on them, made orthonormal in their order, so that the basis is unique.
    """
    stack = np.stack(tensors)
    first = stack[:, 0]
    symmetrised = sum(
        sign * np.transpose(first, (0, *(1 + np.array(permutation))))
        for permutation, sign in group.items()
    )
    flat = first.reshape(len(tensors), -1)
    M = flat @ np.reshape(symmetrised, flat.shape).T / len(group)
    eigenvalues, vectors = np.linalg.eigh(0.5 * (M + M.T))
    kept = vectors[:, eigenvalues > 1.0 - eps]
    rows: list[np.ndarray] = []
    for row in kept @ kept.T:
        for _ in range(2):
            row = row - sum((row @ other) * other for other in rows)
        length = np.linalg.norm(row)
        if length > 1e-6 and len(rows) < kept.shape[1]:
            rows.append(row / length)
    combinations = np.array(rows).reshape(len(rows), len(tensors))
    combinations[np.abs(combinations) < 1e-14] = 0.0
    return np.tensordot(combinations, stack, axes=1)
