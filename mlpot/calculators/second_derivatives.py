"""Second derivatives of a calculator's energy: what ASE's calculators do not have."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
from ase import Atoms
from jaxtyping import Float64

from mlpot import derivatives
from mlpot.models import Potential

from .members import DTYPES
from .parts import CalculatorPart


class SecondDerivatives(CalculatorPart):
    """Methods of a calculator with ``members``; means over them in a committee."""

    dtype: str
    _products: list[derivatives.ReplayedProducts]

    def get_hvp(self, atoms: Atoms, v) -> Float64[np.ndarray, "n_atoms 3"]:
        """Hessian of the energy times a vector, without forming the Hessian.

        Args:
            atoms: where.
            v: (n_atoms, 3) or (3 n_atoms,), the direction.

        Returns:
            (n_atoms, 3), eV/Angstrom^2 times the unit of v.

        Raises:
            ValueError: v has another shape or is not finite; or as `calculate`.
        """
        self._check(atoms)
        direction = np.asarray(v, dtype=np.float64)
        if direction.shape not in ((len(atoms), 3), (3 * len(atoms),)):
            raise ValueError(f"v has shape {direction.shape}; expected ({len(atoms)}, 3)")
        if not np.all(np.isfinite(direction)):
            raise ValueError("v is not finite")
        with self._stream():
            graph = self._graph(atoms)
            padded = np.zeros((graph.n_atoms, 3))
            padded[: len(atoms)] = direction.reshape(-1, 3)
            vector = mx.array(padded, dtype=DTYPES[self.dtype])
            products = [product(graph, vector) for product in self._products]
            mx.eval(products)
        host = [np.array(product).astype(np.float64)[: len(atoms)] for product in products]
        return np.mean(host, axis=0)

    def get_hvps(
        self,
        atoms: Atoms,
        vectors,
        chunk: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Float64[np.ndarray, "n_vectors n_atoms 3"]:
        """Hessian of the energy times each of several vectors, several at once.

        Args:
            atoms: where.
            vectors: (n_vectors, n_atoms, 3), the directions.
            chunk: how many are computed at a time; by default as many as fit the memory.
            progress: called with (products done, products wanted) as the work proceeds.

        Returns:
            (n_vectors, n_atoms, 3), eV/Angstrom^2 times the unit of the vectors.

        Raises:
            ValueError: vectors of another shape or not finite; or as `calculate`.
        """
        self._check(atoms)
        directions = np.asarray(vectors, dtype=np.float64)
        if directions.ndim != 3 or directions.shape[1:] != (len(atoms), 3):
            raise ValueError(
                f"vectors have shape {directions.shape}; expected (n_vectors, {len(atoms)}, 3)"
            )
        if not np.all(np.isfinite(directions)):
            raise ValueError("a vector is not finite")
        with self._stream():
            # Padded as for forces: the choice between radial tables and networks is the same.
            graph = self._graph(atoms)
            padded = np.zeros((len(directions), graph.n_atoms, 3))
            padded[:, : len(atoms)] = directions
            total = self._over_members(
                lambda member, report: derivatives.hvps(
                    member, graph, padded, chunk=chunk, progress=report
                ),
                progress,
            )
        return total[:, : len(atoms)] / len(self.members)

    def get_third_order(
        self,
        atoms: Atoms,
        u,
        vectors,
        chunk: int = 16,
        progress: Callable[[int, int], None] | None = None,
    ) -> Float64[np.ndarray, "n_vectors n_atoms 3"]:
        """Third derivatives of the energy contracted with u and with each of several vectors.

        Args:
            atoms: where.
            u: (n_atoms, 3), the first direction.
            vectors: (n_vectors, n_atoms, 3), the second directions.
            chunk: how many of them are computed at a time.
            progress: called with (products done, products wanted) as the work proceeds.

        Returns:
            (n_vectors, n_atoms, 3), eV/Angstrom^3 times the units of u and the vectors.

        Raises:
            ValueError: directions of another shape, a chunk below 1; or as `calculate`.
        """
        self._check(atoms)
        first, second = np.asarray(u, dtype=np.float64), np.asarray(vectors, dtype=np.float64)
        if first.shape != (len(atoms), 3) or second.shape[1:] != (len(atoms), 3):
            raise ValueError(
                f"u has shape {first.shape} and vectors {second.shape}; expected "
                f"({len(atoms)}, 3) and (n_vectors, {len(atoms)}, 3)"
            )
        with self._stream():
            graph = self._graph(atoms, padded=False)
            total = self._over_members(
                lambda member, report: derivatives.third_order_products(
                    member, graph, first, second, chunk=chunk, progress=report
                ),
                progress,
            )
        return total / len(self.members)

    def get_strain_derivatives(self, atoms: Atoms) -> derivatives.StrainDerivatives:
        """First and second derivatives in the strain, and mixed strain-position ones.

        Args:
            atoms: where; three periodic directions.

        Returns:
            See `mlpot.derivatives.StrainDerivatives`.

        Raises:
            ValueError: a direction that is not periodic; or as `calculate`.
        """
        self._check(atoms)
        if not np.all(atoms.pbc):
            raise ValueError(
                f"the atoms have pbc={atoms.pbc.tolist()}; strain derivatives need three periodic "
                "directions"
            )
        with self._stream():
            graph = self._graph(atoms, padded=False)
            found = [derivatives.strain_derivatives(member, graph) for member in self.members]
        return derivatives.StrainDerivatives(
            gradient=np.mean([one.gradient for one in found], axis=0),
            hessian=np.mean([one.hessian for one in found], axis=0),
            mixed=np.mean([one.mixed for one in found], axis=0),
            volume=found[0].volume,
        )

    def get_hessian(
        self,
        atoms: Atoms,
        rows: Sequence[int] | None = None,
        chunk: int = 16,
        progress: Callable[[int, int], None] | None = None,
    ) -> Float64[np.ndarray, "n_rows n_columns"]:
        """Second derivatives of the energy with respect to positions.

        Args:
            atoms: where.
            rows: atoms whose rows are wanted, in this order; all by default.
            chunk: how many rows are computed at a time; memory grows with it.
            progress: called with (rows done, rows wanted) as the work proceeds.

        Returns:
            (3 len(rows), 3 n_atoms), eV/Angstrom^2; atom by atom, x y z.

        Raises:
            ValueError: a row that is no atom, a chunk below 1; or as `calculate`.
        """
        self._check(atoms)
        wanted = range(len(atoms)) if rows is None else rows
        if any(not 0 <= int(row) < len(atoms) for row in wanted):
            raise ValueError(f"rows {list(wanted)} name an atom outside 0..{len(atoms) - 1}")
        with self._stream():
            graph = self._graph(atoms)
            total = self._over_members(
                lambda member, report: derivatives.hessian(
                    member, graph, chunk=chunk, rows=wanted, progress=report
                ),
                progress,
            )
        return total[:, : 3 * len(atoms)] / len(self.members)

    def _over_members(
        self,
        compute: Callable[[Potential, Callable[[int, int], None]], np.ndarray],
        progress: Callable[[int, int], None] | None,
    ) -> np.ndarray:
        """Sum of a result of each member, with one count of what is done."""
        n_members, total = len(self.members), np.zeros(())
        for index, member in enumerate(self.members):

            def report(done: int, wanted: int, before: int = index) -> None:
                if progress is not None:
                    progress(before * wanted + done, n_members * wanted)

            total = total + compute(member, report)
        return np.asarray(total)
