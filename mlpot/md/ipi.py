"""A client of i-PI: the server moves the atoms, this side computes energies and forces.

Protocol of Kapil et al., Comput. Phys. Commun. 236, 214 (2019): messages of twelve characters,
then numbers in atomic units, in the byte order of the machine.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from dataclasses import replace

import mlx.core as mx
import numpy as np

from mlpot import derivatives
from mlpot.graph import VerletList
from mlpot.graph.cell import check_cell, complete_cell
from mlpot.models import Potential
from mlpot.units import BOHR, HARTREE

from .structure import Structure

_HEADER = 12
#: Where i-PI looks for Unix sockets: /tmp/ipi_NAME.
UNIX_PREFIX = "/tmp/ipi_"


class Disconnected(Exception):  # noqa: N818, says what happened
    """The server has closed the connection.

    Args:
        between: whether that was between two messages.
    """

    def __init__(self, between: bool = False) -> None:
        super().__init__()
        self.between = between


class Channel:
    """Messages and numbers over a connected socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def receive(self, n_bytes: int) -> bytes:
        """So many bytes; raises `Disconnected` where the server has gone."""
        parts, left = [], n_bytes
        while left:
            try:
                part = self._connection.recv(left)
            except ConnectionError as error:
                raise Disconnected from error
            if not part:
                raise Disconnected(between=left == n_bytes == _HEADER)
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def message(self) -> str:
        """The next message without its padding."""
        return self.receive(_HEADER).decode("latin-1").strip()

    def say(self, message: str) -> None:
        """Send a message; raises `Disconnected` where the server has gone."""
        try:
            self._connection.sendall(message.ljust(_HEADER).encode("ascii"))
        except ConnectionError as error:
            raise Disconnected from error

    def numbers(self, count: int, dtype: type = np.float64) -> np.ndarray:
        """Receive numbers."""
        return np.frombuffer(self.receive(count * np.dtype(dtype).itemsize), dtype)

    def send(self, values, dtype: type = np.float64) -> None:
        """Send numbers."""
        self._connection.sendall(np.ascontiguousarray(values, dtype).tobytes())


def connect(unix: str | None = None, host: str = "localhost", port: int = 31415) -> socket.socket:
    """Connect to a server.

    Args:
        unix: name of a Unix socket, as i-PI's input has it, or an absolute path; in place of a
            network address.
        host: name or address.
        port: of the server.

    Raises:
        ValueError: there is no server.
    """
    if unix is not None:
        path = unix if unix.startswith("/") else UNIX_PREFIX + unix
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        where = f"the Unix socket {path}"
        target: str | tuple[str, int] = path
    else:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        where, target = f"{host}:{port}", (host, port)
    try:
        connection.connect(target)
    except OSError as error:
        connection.close()
        raise ValueError(
            f"there is no i-PI server at {where} ({error}): start it first, and give the same "
            "address as in its input"
        ) from error
    return connection


class IPIClient:
    """Computes energies, forces and virials of one structure for a server.

    Args:
        potential: the model, in the precision to compute in; float64 runs on the CPU.
        structure: elements in the server's order; periodicity (i-PI itself does not say).
        skin: Angstrom, of the list of pairs.

    Attributes:
        n_evaluations: how often forces were sent.
    """

    def __init__(self, potential: Potential, structure: Structure, skin: float = 0.5) -> None:
        potential.check_elements(int(z) for z in np.unique(structure.numbers))
        self.potential, self.structure = potential, structure
        self.n_evaluations = 0
        # One list for each bead of a path, which the server sends in turn.
        self._lists: dict[int, VerletList] = {}
        self._skin = skin

    def serve(
        self, connection: socket.socket, report: Callable[[int], None] = lambda n: None
    ) -> bool:
        """Answer until the server ends.

        Args:
            connection: see `connect`; closed at the end, and after an error too, by which the
                server knows that this client has gone.
            report: called with the number of evaluations after each.

        Returns:
            Whether the server said EXIT, as i-PI does at its end. One that has had its answers
            and then hangs up without a word has ended too: so does ASE's server, and so does an
            i-PI that was killed.

        Raises:
            ValueError: another number of atoms, energies or forces that cannot be computed or are
                not finite, a message that is not of this protocol, or a server that has gone
                before the first evaluation, or within a message.
        """
        with contextlib.closing(connection):
            try:
                self._serve(Channel(connection), report)
            except Disconnected as error:
                if error.between and self.n_evaluations > 0:
                    return False
                raise ValueError(
                    f"the server has broken off after {self.n_evaluations} evaluations: its own "
                    "output tells why"
                ) from error
        return True

    def _serve(self, channel: Channel, report: Callable[[int], None]) -> None:
        bead = 0
        known, results = False, None
        while True:
            message = channel.message()
            if message == "STATUS":
                ready = "READY" if known else "NEEDINIT"
                channel.say("HAVEDATA" if results is not None else ready)
            elif message == "INIT":
                bead, length = (int(n) for n in channel.numbers(2, np.int32))
                channel.receive(max(length, 0))
                known = True
            elif message == "POSDATA":
                results = self._answer(channel, bead)
                self.n_evaluations += 1
                report(self.n_evaluations)
            elif message == "GETFORCE" and results is not None:
                try:
                    self._send(channel, *results)
                except (ConnectionError, Disconnected) as error:
                    raise ValueError(
                        "the server has closed the connection while forces were computed: "
                        "give it a longer timeout"
                    ) from error
                # i-PI says anew which bead comes next.
                known, results = False, None
            elif message == "EXIT":
                return
            else:
                raise ValueError(f"the server sent {message!r}: it does not speak i-PI")

    def _answer(self, channel: Channel, bead: int) -> tuple[float, np.ndarray, np.ndarray]:
        cell = channel.numbers(9).reshape(3, 3).T * BOHR  # columns are lattice vectors
        channel.numbers(9)  # the inverse of it
        (n_atoms,) = channel.numbers(1, np.int32)
        if n_atoms != len(self.structure.numbers):
            raise ValueError(
                f"the server has {n_atoms} atoms, the structure {len(self.structure.numbers)}: "
                "give both the same"
            )
        positions = channel.numbers(3 * int(n_atoms)).reshape(-1, 3) * BOHR
        where = f"evaluation {self.n_evaluations + 1} (bead {bead})"
        try:
            found = self.evaluate(positions, cell, bead)
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"{where} has failed: {error}") from error
        if not all(np.isfinite(values).all() for values in found):
            raise ValueError(
                f"energy or forces of {where} are not finite: the atoms have left what the "
                "potential was trained for; give the server a shorter time step or a relaxed "
                "structure"
            )
        return found

    def evaluate(self, positions, cell, bead: int = 0) -> tuple[float, np.ndarray, np.ndarray]:
        """Energy (eV), forces (n_atoms, 3) and virial (3, 3), -dE/dstrain (eV).

        The virial is that of all directions, open ones too: a server strains positions along
        with all of its cell, and what the energy answers to that is this. Whoever wants the
        vacuum beside a slab or a molecule to stay as it is holds that part of the cell in the
        server (``hfix`` in i-PI).

        Args:
            positions: (n_atoms, 3), Angstrom.
            cell: (3, 3), rows are lattice vectors, Angstrom; open directions are ignored.
            bead: whose list of pairs is used.

        Raises:
            ValueError: pairs cannot be listed: a cell or positions that make no sense.
        """
        dtype, n_atoms, pbc = self.potential.dtype, len(self.structure.numbers), self.structure.pbc
        lists = self._lists.setdefault(bead, VerletList(self.potential.cutoff, self._skin))
        # Shifts along open directions are zero: with rows there, the graph has the same pairs, and
        # a volume, without which there is no stress.
        whole = complete_cell(*check_cell(cell, pbc))
        double = dtype == mx.float64
        with mx.stream(mx.cpu) if double else contextlib.nullcontext():
            graph = lists.graph(self.structure.numbers, positions, cell, pbc, dtype=dtype)
            cells = mx.concatenate([mx.array(whole[None], dtype=dtype), graph.cells[1:]])
            graph = replace(graph, cells=cells)
            found = derivatives.energy_forces_stress(self.potential, graph, stress=True)
            assert found.stress is not None
            energy = float(found.energy[0])
            forces = np.array(found.forces).astype(np.float64)[:n_atoms]
            stress = np.array(found.stress).astype(np.float64)[0]
            virial = -abs(np.linalg.det(whole)) * 0.5 * (stress + stress.T)
        return energy, forces, virial

    @staticmethod
    def _send(channel: Channel, energy: float, forces: np.ndarray, virial: np.ndarray) -> None:
        channel.say("FORCEREADY")
        channel.send(energy / HARTREE)
        channel.send(len(forces), np.int32)
        channel.send(forces * (BOHR / HARTREE))
        channel.send(virial.T / HARTREE)
        channel.send(0, np.int32)  # no further text
