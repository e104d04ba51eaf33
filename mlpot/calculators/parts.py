"""What the parts of the calculator expect of it."""

from __future__ import annotations

import contextlib

from ase import Atoms

from mlpot.graph import Graph
from mlpot.models import Potential


class CalculatorPart:
    """Methods of a calculator with ``members``; the calculator itself defines those below."""

    members: list[Potential]

    def _check(self, atoms: Atoms | None) -> None:
        raise NotImplementedError

    def _stream(self) -> contextlib.AbstractContextManager:
        raise NotImplementedError

    def _graph(self, atoms: Atoms, padded: bool = True) -> Graph:
        raise NotImplementedError
