"""The client with a real i-PI server, and ASE's socket client with the calculator."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from ase import units
from ase.calculators.socketio import SocketClient, SocketIOCalculator
from ase.io import write
from ase.md.verlet import VelocityVerlet
from embedded_atoms import EmbeddedAtoms
from sample_potentials import copper, small_network

import mlpot
from mlpot.calculators import MLPotCalculator
from mlpot.md.ase_bridge import to_structure
from mlpot.md.ipi import IPIClient, connect
from mlpot.units import BOHR

INPUT = """
<simulation verbosity='low'>
  <output prefix='out'>
    <properties stride='1' filename='props'>
      [ step, time{{femtosecond}}, conserved{{electronvolt}}, potential{{electronvolt}},
        kinetic_md{{electronvolt}}, pressure_md{{megapascal}} ]
    </properties>
    <trajectory stride='1' filename='pos' format='xyz' cell_units='angstrom'>
      positions{{angstrom}}
    </trajectory>
  </output>
  <total_steps> {steps} </total_steps>
  <prng><seed> 12 </seed></prng>
  <ffsocket name='mlpot' mode='unix' pbc='False'>
    <address> {name} </address> <latency> 1e-3 </latency> <timeout> 600 </timeout>
  </ffsocket>
  <system>
    <initialize nbeads='{beads}'>
      <file mode='ase' units='angstrom'> start.extxyz </file>
      <velocities mode='thermal' units='kelvin'> 300 </velocities>
    </initialize>
    <forces><force forcefield='mlpot'/></forces>
    <motion mode='dynamics'>
      <dynamics mode='nve'><timestep units='femtosecond'> 2.0 </timestep></dynamics>
    </motion>
    <ensemble><temperature units='kelvin'> 300 </temperature></ensemble>
  </system>
</simulation>
"""


def potential():
    found = EmbeddedAtoms(numbers=(13, 29), cutoff=4.0)
    found.set_dtype(mx.float64)
    return found


def serve_ipi(folder: Path, atoms, steps: int, beads: int):
    """Run i-PI with a client in this process; returns its properties and the client."""
    name = f"mlpot_test_{os.getpid()}_{beads}"
    write(folder / "start.extxyz", atoms)
    (folder / "input.xml").write_text(INPUT.format(steps=steps, name=name, beads=beads))
    program = Path(sys.executable).parent / "i-pi"
    client = IPIClient(potential(), to_structure(atoms))
    client.evaluate(atoms.positions, np.array(atoms.cell))  # compiles what has to be compiled
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(
            [sys.executable, str(program), "input.xml"], cwd=folder, stdout=log, stderr=log
        )
    try:
        path, begun = Path(f"/tmp/ipi_{name}"), time.monotonic()
        while not path.exists():
            assert server.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < begun + 60
            time.sleep(0.05)
        client.serve(connect(unix=name))
        assert server.wait(timeout=60) == 0, (folder / "log").read_text()
    finally:
        server.kill()
        server.wait()
    return np.loadtxt(folder / "out.props"), client


def test_nve_of_ipi_conserves_energy_and_has_our_numbers(tmp_path):
    atoms = copper(1)
    rows, client = serve_ipi(tmp_path, atoms, 40, 1)
    assert len(rows) == 41 and client.n_evaluations == 41
    conserved, energies, kinetic = rows[:, 2], rows[:, 3], rows[:, 4]
    assert np.ptp(kinetic) > 0.01
    assert np.ptp(conserved) < 0.02 * np.ptp(kinetic)
    calculator = MLPotCalculator(potential(), dtype="float64")
    atoms.calc = calculator
    assert energies[0] == pytest.approx(atoms.get_potential_energy(), abs=1e-5)
    # The virial: pressure less the ideal gas's part.
    stress = calculator.get_stress(atoms)[:3].mean()
    ideal = 2 * kinetic[0] / (3 * atoms.get_volume())
    assert rows[0, 5] == pytest.approx((ideal - stress) / units.GPa * 1000, abs=2.0)


def test_path_integral_of_ipi(tmp_path):
    rows, client = serve_ipi(tmp_path, copper(1), 10, 4)
    assert client.n_evaluations == 44 and len(client._lists) <= 4
    assert np.ptp(rows[:, 2]) < 0.05 * np.ptp(rows[:, 4])


def test_against_ase_as_server(tmp_path):
    """ASE moves the atoms and this client answers; the same as the calculator itself."""
    atoms, direct = copper(1), copper(1)
    name = f"mlpot_ase_{os.getpid()}"
    client = IPIClient(potential(), to_structure(atoms))
    direct.calc = MLPotCalculator(potential(), dtype="float64")
    with SocketIOCalculator(unixsocket=name, timeout=60) as server:
        thread = threading.Thread(target=lambda: client.serve(connect(unix=name)))
        atoms.calc = server
        thread.start()
        VelocityVerlet(atoms, 2.0 * units.fs).run(5)
        stress = atoms.get_stress()
        forces = atoms.get_forces()
    thread.join(timeout=60)
    assert not thread.is_alive()
    VelocityVerlet(direct, 2.0 * units.fs).run(5)
    np.testing.assert_allclose(atoms.positions, direct.positions, atol=1e-8)
    np.testing.assert_allclose(forces, direct.get_forces(), atol=1e-6)
    np.testing.assert_allclose(stress, direct.get_stress(), atol=1e-7)


def test_socket_client_of_ase_with_the_calculator():
    atoms, mirror, direct = copper(1), copper(1), copper(1)
    name = f"mlpot_client_{os.getpid()}"
    mirror.calc = MLPotCalculator(potential(), dtype="float64")
    direct.calc = MLPotCalculator(potential(), dtype="float64")
    with SocketIOCalculator(unixsocket=name, timeout=60) as server:
        atoms.calc = server
        client = SocketClient(unixsocket=name, timeout=60)
        thread = threading.Thread(target=lambda: client.run(mirror, use_stress=True))
        thread.start()
        VelocityVerlet(atoms, 2.0 * units.fs).run(5)
    thread.join(timeout=60)
    VelocityVerlet(direct, 2.0 * units.fs).run(5)
    np.testing.assert_allclose(atoms.positions, direct.positions, atol=1e-8)


def posdata(atoms) -> bytes:
    """What a server sends to have forces of atoms."""
    cell, inverse = np.array(atoms.cell).T / BOHR, np.eye(3)
    count, positions = np.int32(len(atoms)), atoms.positions / BOHR
    return b"POSDATA     " + b"".join(part.tobytes() for part in (cell, inverse, count, positions))


def refused(client: IPIClient, sent: bytes, hang_up: bool = False) -> str:
    """What a client says of messages; it has closed its socket by then."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    with theirs:
        theirs.sendall(sent)
        if hang_up:
            theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(ValueError) as caught:
            client.serve(ours)
        with contextlib.suppress(ConnectionResetError):  # there was more to read
            while theirs.recv(1000):
                pass
    assert ours.fileno() == -1
    return str(caught.value)


def test_no_server_and_wrong_messages():
    with pytest.raises(ValueError, match="there is no i-PI server at the Unix socket /tmp/ipi_no"):
        connect(unix="nowhere_at_all")
    with pytest.raises(ValueError, match="there is no i-PI server at localhost:1"):
        connect(port=1)
    client = IPIClient(potential(), to_structure(copper(1)))
    said = refused(client, posdata(copper(1)[:3]))
    assert "the server has 3 atoms, the structure 4" in said
    assert "'HELLO': it does not speak i-PI" in refused(client, b"HELLO       ")
    assert "'ÿÿÿ" in refused(client, b"\xff" * 12)
    assert "broken off after 0 evaluations" in refused(client, b"", hang_up=True)
    client.evaluate(copper(1).positions, np.array(copper(1).cell))
    client.n_evaluations = 1
    assert "broken off after 1" in refused(client, b"POSDATA     " + bytes(50), hang_up=True)
    assert "broken off after 1" in refused(client, b"STAT", hang_up=True)


def test_forces_that_cannot_be_computed():
    client = IPIClient(potential(), to_structure(copper(1)))
    twice = copper(1)
    twice.positions[1] = twice.positions[0]
    said = refused(client, posdata(twice))
    assert said.startswith("evaluation 1 (bead 0) has failed: atoms 0 and 1 are at the same place")
    client.potential.strength = client.potential.strength * np.nan
    said = refused(
        client, b"INIT        " + np.array([3, 1], np.int32).tobytes() + b" " + posdata(twice)
    )
    assert said.startswith("evaluation 1 (bead 3) has failed")
    assert "energy or forces of evaluation 1 (bead 0) are not finite" in refused(
        client, posdata(copper(1))
    )
    assert client.n_evaluations == 0


@pytest.mark.parametrize("pbc", [(True, True, False), (False, True, False), (False, False, False)])
def test_the_virial_with_open_directions(pbc):
    """The answer of the energy to a strain of cell and atoms, as a server's barostat makes it."""
    atoms = copper(1)
    atoms.pbc = pbc
    client = IPIClient(potential(), to_structure(atoms))
    _, _, virial = client.evaluate(atoms.positions, np.array(atoms.cell))
    step = 1e-4
    for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2)):
        strain = np.zeros((3, 3))
        strain[i, j] += 0.5 * step
        strain[j, i] += 0.5 * step
        ends = []
        for sign in (1, -1):
            map_ = np.eye(3) + sign * strain
            ends.append(client.evaluate(atoms.positions @ map_, np.array(atoms.cell) @ map_)[0])
        assert virial[i, j] == pytest.approx(-(ends[0] - ends[1]) / (2 * step), abs=1e-6)
    assert abs(virial[2, 2]) > 0.1


def socket_client(folder: Path, name: str, *struct: str) -> subprocess.Popen:
    script = Path(__file__).parents[2] / "calculators" / "socket_client.py"
    mlpot.save(folder / "model.safetensors", small_network())
    return subprocess.Popen(
        [sys.executable, script, "model.safetensors", *struct, "--unix", name],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("last", "code", "said"),
    [
        (b"EXIT        ", 0, ""),
        (b"HELLO       ", 1, "the server sent 'HELLO': it does not speak i-PI"),
        (b"", 0, "; the server hung up without an EXIT"),
    ],
)
def test_the_script_ends_with_one_message(tmp_path, last, code, said):
    write(tmp_path / "start.xyz", copper(1), format="extxyz")
    name = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(name)
        server.listen()
        server.settimeout(60)
        client = socket_client(tmp_path, name, "start.xyz")
        connection, _ = server.accept()
        with connection:
            connection.sendall(posdata(copper(1)) + b"GETFORCE    " + last)
            answer, left = b"", 12 + 8 + 4 + 96 + 72 + 4
            while len(answer) < left:
                answer += connection.recv(left - len(answer))
            assert answer.startswith(b"FORCEREADY  ")
    printed, errors = client.communicate(timeout=60)
    assert client.returncode == code and "Traceback" not in errors
    if code == 0:
        assert (printed, errors) == (f"1 evaluations{said}\n", "")
    else:
        assert errors.startswith("socket_client.py: error: ") and said in errors
        assert errors.count("\n") == 1


def test_the_script_without_a_structure(tmp_path):
    client = socket_client(tmp_path, "nowhere_at_all", "none.xyz")
    errors = client.communicate(timeout=60)[1]
    assert client.returncode == 1 and "Traceback" not in errors
    assert "socket_client.py: error:" in errors and "none.xyz" in errors
