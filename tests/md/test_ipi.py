"""The client with a real i-PI server, and ASE's socket client with the calculator."""

from __future__ import annotations

import os
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
from ase.md.verlet import VelocityVerlet
from embedded_atoms import EmbeddedAtoms
from sample_potentials import copper

from mlpot.calculators import MLPotCalculator
from mlpot.md.ase_bridge import to_structure
from mlpot.md.ipi import IPIClient, connect

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
    from ase.io import write

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


def test_no_server_and_wrong_atoms():
    with pytest.raises(ValueError, match="there is no i-PI server at the Unix socket /tmp/ipi_no"):
        connect(unix="nowhere_at_all")
    with pytest.raises(ValueError, match="there is no i-PI server at localhost:1"):
        connect(port=1)
    import socket

    client = IPIClient(potential(), to_structure(copper(1)))
    ours, theirs = socket.socketpair()
    theirs.sendall(b"POSDATA     " + np.eye(3).tobytes() * 2 + np.int32(3).tobytes() + bytes(72))
    with pytest.raises(ValueError, match="the server has 3 atoms, the structure 4"):
        client.serve(ours)
    ours, other = socket.socketpair()
    other.sendall(b"HELLO       ")
    with pytest.raises(ValueError, match="'HELLO': it does not speak i-PI"):
        client.serve(ours)
    theirs.close()
    other.close()
