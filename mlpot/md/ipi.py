"""A client of i-PI: the server moves the atoms, this side computes energies and forces.

Protocol of Kapil et al., Comput. Phys. Commun. 236, 214 (2019): messages of twelve characters,
then numbers in atomic units, in the byte order of the machine.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

import mlx.core as mx
import numpy as np

from mlpot import derivatives
from mlpot.graph import VerletList
from mlpot.models import Potential
from mlpot.units import BOHR, HARTREE

from .structure import Structure

_HEADER = 12
#: Where i-PI looks for Unix sockets: /tmp/ipi_NAME.
UNIX_PREFIX = "/tmp/ipi_"


class Disconnected(Exception):  # noqa: N818, says what happened
    """The server has closed the connection."""


class Channel:
    """Messages and numbers over a connected socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def receive(self, n_bytes: int) -> bytes:
        """So many bytes; raises `Disconnected` where the server has gone."""
        parts, left = [], n_bytes
        while left:
            part = self._connection.recv(left)
            if not part:
                raise Disconnected
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def message(self) -> str:
        """The next message without its padding."""
        return self.receive(_HEADER).decode("ascii").strip()

    def say(self, message: str) -> None:
        """Send a message."""
        self._connection.sendall(message.ljust(_HEADER).encode("ascii"))

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
    ) -> None:
        """Answer until the server ends.

        Args:
            connection: see `connect`; closed at the end.
            report: called with the number of evaluations after each.

        Raises:
            ValueError: another number of atoms, or a message that is not of this protocol.
        """
        channel = Channel(connection)
        bead = 0
        known, results = False, None
        with contextlib.closing(connection), contextlib.suppress(Disconnected):
            while True:
                message = channel.message()
                if message == "STATUS":
                    ready = "READY" if known else "NEEDINIT"
                    channel.say("HAVEDATA" if results is not None else ready)
                elif message == "INIT":
                    bead, length = (int(n) for n in channel.numbers(2, np.int32))
                    channel.receive(length)
                    known = True
                elif message == "POSDATA":
                    results = self._answer(channel, bead)
                    self.n_evaluations += 1
                    report(self.n_evaluations)
                elif message == "GETFORCE" and results is not None:
                    try:
                        self._send(channel, *results)
                    except ConnectionError as error:
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
        return self.evaluate(positions, cell, bead)

    def evaluate(self, positions, cell, bead: int = 0) -> tuple[float, np.ndarray, np.ndarray]:
        """Energy (eV), forces (n_atoms, 3) and virial (3, 3), -dE/dstrain (eV).

        Args:
            positions: (n_atoms, 3), Angstrom.
            cell: (3, 3), rows are lattice vectors, Angstrom; open directions are ignored.
            bead: whose list of pairs is used.
        """
        dtype, n_atoms = self.potential.dtype, len(self.structure.numbers)
        lists = self._lists.setdefault(bead, VerletList(self.potential.cutoff, self._skin))
        solid = bool(self.structure.pbc.all())
        double = dtype == mx.float64
        with mx.stream(mx.cpu) if double else contextlib.nullcontext():
            graph = lists.graph(
                self.structure.numbers, positions, cell, self.structure.pbc, dtype=dtype
            )
            found = derivatives.energy_forces_stress(self.potential, graph, stress=solid)
            energy = float(found.energy[0])
            forces = np.array(found.forces).astype(np.float64)[:n_atoms]
            virial = np.zeros((3, 3))
            if found.stress is not None:
                stress = np.array(found.stress).astype(np.float64)[0]
                virial = -abs(np.linalg.det(cell)) * 0.5 * (stress + stress.T)
        return energy, forces, virial

    @staticmethod
    def _send(channel: Channel, energy: float, forces: np.ndarray, virial: np.ndarray) -> None:
        channel.say("FORCEREADY")
        channel.send(energy / HARTREE)
        channel.send(len(forces), np.int32)
        channel.send(forces * (BOHR / HARTREE))
        channel.send(virial.T / HARTREE)
        channel.send(0, np.int32)  # no further text
