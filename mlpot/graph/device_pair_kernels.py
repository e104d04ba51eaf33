"""Lists of pairs on GPUs by a handful of kernels; see `mlpot.graph.DevicePairs`.

A pair is looked at from both of its atoms. Both threads compute its length from the same numbers
in the same way, so either both find it or neither does. Therefore the edges that an atom sends are
the reverse of those that it receives, and no sort is needed to find them; that this holds is
checked for every list.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from mlpot.kernels import dispatch, gpu

from .cell_grid import CellGrid
from .device_pair_text import KERNELS, THREADS
from .matrix_text import HELPERS


@cache
def _kernel(name: str) -> gpu.GeneratedKernel:
    inputs, outputs, body = KERNELS[name]
    header = HELPERS if name == "pair_bins" else ""
    return gpu.GeneratedKernel(name, inputs, outputs, body, header)


def takes_search(positions: mx.array, tasks: int) -> bool:
    """Whether kernels can search pairs of these positions here.

    Args:
        positions: (n_atoms, 3).
        tasks: room for pairs, of all atoms and of the list.
    """

    def check() -> str | None:
        refused = gpu.refusal(positions, types=(mx.float32,))
        return refused or gpu.grid_refusal(-(-tasks // THREADS), THREADS) or gpu.unmeasured()

    return dispatch.choose("pairs", gpu.offers(check)) in gpu.DIALECTS


class Found(NamedTuple):
    """A list of pairs, lazily; all int32 but for the shifts.

    Args:
        senders, receivers: (n_edges,).
        shifts: (n_edges, 3) float32.
        pointers: (n_atoms + n_padding + 1,), of receivers and, by ``perm``, of senders.
        perm: (n_edges,), the reverse of each edge.
        needed: (5,), see `mlpot.graph.DevicePairs.build`, but with the most pairs of an atom in
            the place of the fullest bin; and 1 behind if an edge has no reverse.
    """

    senders: mx.array
    receivers: mx.array
    shifts: mx.array
    pointers: mx.array
    perm: mx.array
    needed: mx.array


class PairKernels:
    """Searches pairs of a system whose cells are divided into bins.

    Args:
        grid: the bins.
        node_graph: (n_atoms,) structure of each atom.
        pbc: (n_graphs, 3).
    """

    def __init__(self, grid: CellGrid, node_graph: np.ndarray, pbc: np.ndarray) -> None:
        whole = np.column_stack([pbc, grid.bins, grid.first, grid.checked]).astype(np.int32)
        real = np.column_stack([grid.full.reshape(-1, 9), grid.widths, grid.origins])
        self._n_bins = grid.n_bins
        self._arrays = {
            "whole": mx.array(whole),
            "real": mx.array(real.astype(np.float32)),
            "lengths": mx.array(np.array([grid.radius, *grid.reach], np.float32)),
            "owner": mx.array(node_graph.astype(np.int32)),
            "offsets": mx.array(grid.offsets.astype(np.int32)),
        }
        mx.eval(self._arrays)

    def _run(self, name: str, tasks: int, outputs: list, **arrays: mx.array) -> list[mx.array]:
        arrays |= self._arrays
        return _kernel(name)(
            [arrays[name] for name in KERNELS[name][0]],
            [shape for shape, _ in outputs],
            [dtype for _, dtype in outputs],
            blocks=-(-tasks // THREADS),
            threads=THREADS,
        )

    def search(
        self, positions: mx.array, cells: mx.array, room: int, size: int, n_padding: int
    ) -> Found:
        """All pairs.

        Args:
            positions: (n_atoms, 3), Angstrom.
            cells: (n_graphs, 3, 3), Angstrom.
            room: pairs that an atom may have.
            size: of the list, padding edges included.
            n_padding: padding atoms, which share the padding edges.
        """
        n, whole, real = positions.shape[0], mx.int32, mx.float32
        share = -(-size // n_padding)
        sizes = mx.array([room, size, share], dtype=mx.int32)
        number, place, wraps, wrapped, flags = self._run(
            "pair_bins",
            n,
            [((n,), whole), ((n, 3), whole), ((n, 3), real), ((n, 3), real), ((n,), whole)],
            positions=positions,
            cells=cells,
        )
        ordered = mx.argsort(number).astype(mx.int32)
        starts = gpu.segment_starts(mx.take(number, ordered), self._n_bins)
        near_atom, near_offset, counts, equal = self._run(
            "pair_search",
            n,
            [((n, room), whole), ((n, room), whole), ((n,), whole), ((n,), whole)],
            wrapped=wrapped,
            place=place,
            cells=cells,
            ordered=ordered,
            starts=starts,
            sizes=sizes,
        )
        fullest, total = counts.max(), counts.sum()
        # What an atom has no room for is not there to be moved.
        counts = mx.minimum(counts, room)
        behind = mx.cumsum(counts)
        filled = mx.minimum(behind[-1:], size)
        senders, receivers, shifts = self._run(
            "pair_edges",
            n * room + size,
            [((size,), whole), ((size,), whole), ((size, 3), real)],
            near_atom=near_atom,
            near_offset=near_offset,
            counts=counts,
            behind=behind,
            filled=filled,
            place=place,
            wraps=wraps,
            sizes=sizes,
        )
        least = np.minimum(np.arange(1, n_padding + 1) * share, size).astype(np.int32)
        tail = mx.maximum(filled, mx.array(least))
        zero = mx.zeros((1,), dtype=mx.int32)
        pointers = mx.concatenate([zero, mx.minimum(behind, size), tail])
        perm, alone = self._run(
            "pair_reverse",
            size,
            [((size,), whole), ((size,), whole)],
            senders=senders,
            receivers=receivers,
            shifts=shifts,
            pointers=pointers,
            filled=filled,
        )
        flags = mx.stack([flags & 1, flags >> 1]).max(axis=1)
        needed = [total, fullest, flags[0], equal.sum(), flags[1], alone.max()]
        needed = mx.stack([number.astype(mx.int32) for number in needed])
        return Found(senders, receivers, shifts, pointers, perm, needed)
