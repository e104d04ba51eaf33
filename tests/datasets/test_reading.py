"""Readers: every place where labels are kept, signs, units, compression, and damaged files."""

import gzip

import ase.db
import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms

from mlpot import datasets, units

WATER = """3
{info} Properties=species:S:1:pos:R:3{columns} pbc="F F F"
O 0.0 0.0 0.0 {f0}
H 0.96 0.0 0.0 {f1}
H -0.24 0.93 0.0 {f2}
"""


def water(info="", forces="", values=("", "", "")):
    columns = f":{forces}:R:3" if forces else ""
    return WATER.format(info=info, columns=columns, f0=values[0], f1=values[1], f2=values[2])


FORCES = ("0.1 0.2 0.3", "-0.1 -0.2 0.0", "0.0 0.0 -0.3")


def save(tmp_path, text, name="frames.xyz"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("prefix", ["REF_", ""])
def test_energy_and_forces_wherever_ase_puts_them(tmp_path, prefix):
    path = save(tmp_path, water(f"{prefix}energy=-2.5", f"{prefix}forces", FORCES))
    (frame,) = datasets.read(path)
    assert frame.energy == -2.5
    assert frame.forces.tolist() == [[0.1, 0.2, 0.3], [-0.1, -0.2, 0], [0, 0, -0.3]]
    assert frame.stress is None
    assert frame.source == f"{path}:0"
    assert frame.numbers.tolist() == [8, 1, 1]


def test_reference_labels_come_before_others(tmp_path):
    path = save(tmp_path, water("energy=1 REF_energy=2 free_energy=3"))
    assert datasets.read(path)[0].energy == 2
    assert datasets.read(path, energy_key="energy")[0].energy == 1
    assert datasets.read(path, energy_key="free_energy")[0].energy == 3


def test_missing_labels_are_none(tmp_path):
    text = water("energy=1", "forces", FORCES) + water("energy=2") + water("", "forces", FORCES)
    frames = datasets.read(save(tmp_path, text))
    assert [f.energy for f in frames] == [1, 2, None]
    assert [f.forces is None for f in frames] == [False, True, False]


def copper(strain=None):
    atoms = bulk("Cu", cubic=True)
    atoms.set_cell([[3.6, 0.1, 0.0], [0.0, 3.7, -0.2], [0.05, 0.0, 3.5]], scale_atoms=True)
    atoms.positions += 0.05 * np.random.default_rng(0).normal(size=(4, 3))
    if strain is not None:
        atoms.set_cell(atoms.cell @ (np.eye(3) + strain), scale_atoms=True)
    atoms.calc = EMT()
    return atoms


def virial_by_finite_strain():
    """-dE/dstrain of EMT, from energies alone."""
    virial, step = np.zeros((3, 3)), 1e-4
    for i in range(3):
        for j in range(3):
            strain = np.zeros((3, 3))
            strain[i, j] += step / 2
            strain[j, i] += step / 2
            plus, minus = (copper(s).get_potential_energy() for s in (strain, -strain))
            virial[i, j] = -(plus - minus) / (2 * step)
    return virial


def words(values):
    return " ".join(f"{x:.12g}" for x in np.ravel(values))


@pytest.mark.parametrize("key", ["virial", "virials", "REF_virials", "stress", "REF_stress"])
@pytest.mark.parametrize("shape", ["full", "voigt"])
def test_stress_is_the_derivative_of_the_energy_under_strain(tmp_path, key, shape):
    virial = virial_by_finite_strain()
    atoms = copper()
    label = virial if "virial" in key else -virial / atoms.get_volume()
    if shape == "voigt":
        label = label[[0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]]
    bare = atoms.copy()
    text = (
        f'4\nLattice="{words(bare.cell)}" {key}="{words(label)}" '
        'Properties=species:S:1:pos:R:3 pbc="T T T"\n'
    )
    text += "".join(f"Cu {words(x)}\n" for x in bare.positions)
    (frame,) = datasets.read(save(tmp_path, text))
    np.testing.assert_allclose(frame.stress, atoms.get_stress(voigt=False), atol=1e-7)


def test_ase_files_keep_labels_and_forget_constraints(tmp_path):
    atoms = copper()
    atoms.set_constraint(FixAtoms([0, 1]))
    expected = atoms.get_forces(apply_constraint=False)
    assert np.abs(expected[0]).max() > 0.01
    energy, stress = atoms.get_potential_energy(), atoms.get_stress(voigt=False)
    ase.io.write(tmp_path / "a.traj", atoms)
    ase.io.write(tmp_path / "a.extxyz", atoms)
    with ase.db.connect(tmp_path / "a.db") as database:
        database.write(atoms)
    for name in ("a.traj", "a.extxyz", "a.db"):
        (frame,) = datasets.read(tmp_path / name)
        np.testing.assert_allclose(frame.forces, expected, atol=1e-7)
        np.testing.assert_allclose(frame.stress, stress, atol=1e-7)
        assert frame.energy == pytest.approx(energy, abs=1e-7)
        assert frame.pbc.all()


def test_database_columns_are_labels_too(tmp_path):
    with ase.db.connect(tmp_path / "b.db") as database:
        database.write(
            Atoms("H2", [[0, 0, 0], [0, 0, 0.8]]),
            REF_energy=-1.5,
            config_type="dimer",
            data={"REF_forces": np.array([[0, 0, 1.0], [0, 0, -1.0]])},
        )
    (frame,) = datasets.read(tmp_path / "b.db")
    assert (frame.energy, frame.config_type) == (-1.5, "dimer")
    assert frame.forces[0, 2] == 1


def test_config_type_and_weights(tmp_path):
    info = "config_type=hot config_weight=2 config_energy_weight=3 config_virials_weight=0.5 set=b"
    path = save(tmp_path, water(info))
    (frame,) = datasets.read(path)
    assert frame.config_type == "hot"
    weights = (frame.weight, frame.energy_weight, frame.forces_weight, frame.stress_weight)
    assert weights == (2, 3, 1, 0.5)
    assert datasets.read(path, config_type_key="set")[0].config_type == "b"


def test_compressed_files_and_patterns(tmp_path):
    for k in (2, 1):
        with gzip.open(tmp_path / f"part{k}.xyz.gz", "wt") as file:
            file.write(water(f"energy={k}") + water(f"energy={k + 0.5}"))
    frames = datasets.read(tmp_path / "part*.xyz.gz")
    assert [f.energy for f in frames] == [1, 1.5, 2, 2.5]
    both = [tmp_path / "part2.xyz.gz", str(tmp_path / "part1.xyz.gz")]
    assert [f.energy for f in datasets.read(both)] == [2, 2.5, 1, 1.5]


def test_units(tmp_path):
    text = (
        'Lattice="4 0 0 0 4 0 0 0 4" energy=2 stress="1 0 0 0 1 0 0 0 1" '
        "Properties=species:S:1:pos:R:3:forces:R:3"
    )
    path = save(tmp_path, f"1\n{text}\nCu 1 0 0 0.5 0 0\n")
    ha, bohr = units.HARTREE, units.BOHR
    (frame,) = datasets.read(path, energy_unit="Hartree", length_unit="Bohr")
    assert frame.energy == pytest.approx(2 * ha)
    assert frame.positions[0, 0] == pytest.approx(bohr)
    assert frame.cell[2, 2] == pytest.approx(4 * bohr)
    assert frame.forces[0, 0] == pytest.approx(0.5 * ha / bohr)
    assert frame.stress[0, 0] == pytest.approx(ha / bohr**3)
    (frame,) = datasets.read(path, forces_unit="Hartree/Bohr", stress_unit="kbar")
    assert (frame.energy, frame.positions[0, 0]) == (2, 1)
    assert frame.forces[0, 0] == pytest.approx(0.5 * 51.42208619)
    # 1 eV/Angstrom^3 is 1602.1766 kbar.
    assert frame.stress[1, 1] == pytest.approx(1 / 1602.1766208, rel=1e-7)


def test_virials_have_the_unit_of_energy(tmp_path):
    text = '1\nLattice="4 0 0 0 4 0 0 0 4" virials="3 0 0 0 3 0 0 0 3"\nCu 0 0 0\n'
    (frame,) = datasets.read(
        save(tmp_path, text), energy_unit="Hartree", length_unit="Bohr", stress_unit="GPa"
    )
    expected = -3 / 64 * units.HARTREE / units.BOHR**3
    assert frame.stress[0, 0] == pytest.approx(expected)


def test_contradictions_and_useless_stresses_are_noted(tmp_path):
    stress = '"1 0 0 0 1 0 0 0 1"'
    head = 'Lattice="4 0 0 0 4 0 0 0 4" Properties=species:S:1:pos:R:3'
    text = (
        f"1\n{head} stress={stress} virials={stress}\nCu 0 0 0\n"
        f'1\n{head} stress={stress} pbc="T T F"\nCu 0 0 0\n'
        f'1\n{head} stress="1 5 0 0 1 0 0 0 1" REF_stress="1 5 0 0 1 0 0 0 1"\nCu 0 0 0\n'
    )
    frames = datasets.read(save(tmp_path, text))
    assert "contradict" in frames[0].notes[0]
    assert frames[0].stress[0, 0] == 1
    assert "three periodic directions" in frames[1].notes[0]
    assert frames[1].stress is None
    assert "not symmetric" in frames[2].notes[0]
    assert frames[2].stress[0, 1] == frames[2].stress[1, 0] == 2.5


@pytest.mark.parametrize("names", ["rmd17", "md17"])
def test_npz_of_md17(tmp_path, names):
    keys = {
        "rmd17": ("nuclear_charges", "coords", "energies", "forces"),
        "md17": ("z", "R", "E", "F"),
    }[names]
    rng = np.random.default_rng(1)
    values = (np.array([8, 1]), rng.normal(size=(3, 2, 3)), rng.normal(size=(3, 1)), None)
    values = (*values[:3], rng.normal(size=(3, 2, 3)))
    path = tmp_path / "m.npz"
    np.savez(path, **dict(zip(keys, values, strict=True)), theory="PBE")
    frames = datasets.read(path, energy_unit="kcal/mol")
    assert len(frames) == 3
    factor = 4184 / (6.02214076e23 * 1.602176634e-19)
    assert frames[2].energy == pytest.approx(values[2][2, 0] * factor, rel=1e-12)
    np.testing.assert_allclose(frames[1].forces, values[3][1] * factor, rtol=1e-12)
    np.testing.assert_array_equal(frames[1].positions, values[1][1])
    assert frames[1].source == f"{path}:1"
    with pytest.raises(ValueError, match="set energy_unit"):
        datasets.read(path)


def test_npz_that_is_something_else(tmp_path):
    np.savez(tmp_path / "a.npz", weights=np.zeros(3))
    with pytest.raises(ValueError, match="neither those of MD17"):
        datasets.read(tmp_path / "a.npz", energy_unit="eV")
    (tmp_path / "b.npz").write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match="not a readable npz"):
        datasets.read(tmp_path / "b.npz", energy_unit="eV")
    np.savez(tmp_path / "c.npz", z=[1], R=np.zeros((2, 1, 3)), E=np.zeros(3))
    with pytest.raises(ValueError, match="3 energies for 2 positions"):
        datasets.read(tmp_path / "c.npz", energy_unit="eV")


GOOD = water("energy=1", "forces", FORCES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + water("energy=nan"), ":1: energy is nan"),
        (GOOD + water("energy=1", "forces", ("nan 0 0", *FORCES[1:])), ":1: forces is nan"),
        (GOOD + water("energy=abc"), ":1: energy is not made of numbers"),
        (GOOD + "0\nenergy=1\n", ":1: .*0 atoms"),
        (GOOD + "-3\nenergy=1\n", ":1: .*-3 atoms"),
        (GOOD + water("energy=2").rsplit("\n", 2)[0], ":1: .*ends after 2 of 3 atoms"),
        (GOOD + "hello\n", ":1: .*expected a number of atoms, found 'hello'"),
        (GOOD + water("energy=1", "forces", ("1 2", *FORCES[1:])), ":1: cannot be read"),
        (GOOD + GOOD.replace("O 0.0", "Qq 0.0"), ":1: cannot be read: unknown element 'Qq'"),
        ("", "holds no frames"),
        ("\n\n", "holds no frames"),
        (water('REF_stress="1 2 3 4"'), ":0: stress has shape"),
    ],
)
def test_damaged_files_name_file_and_frame(tmp_path, text, message):
    path = save(tmp_path, text)
    with pytest.raises(ValueError, match=f"{path}.*{message}|{path}{message}"):
        datasets.read(path)


def test_files_that_ase_cannot_read_are_named(tmp_path):
    path = tmp_path / "broken.traj"
    path.write_bytes(b"- of Ulm" + b"\0" * 50)
    with pytest.raises(ValueError, match=f"{path}:0: cannot be read"):
        datasets.read(path)


def test_names_that_do_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no_such\.xyz"):
        datasets.read(tmp_path / "no_such.xyz")
    with pytest.raises(FileNotFoundError, match="no file matches"):
        datasets.read(tmp_path / "*.xyz")
    with pytest.raises(ValueError, match="is a folder"):
        datasets.read(tmp_path)
    with pytest.raises(ValueError, match="at least one"):
        datasets.read([])


def test_keys_and_units_that_do_not_exist(tmp_path):
    path = save(tmp_path, water("dft_energy=1"))
    with pytest.raises(ValueError, match=r"energy_key 'dftenergy' is in no frame.*dft_energy"):
        datasets.read(path, energy_key="dftenergy")
    with pytest.raises(ValueError, match="Did you mean 'kcal/mol'"):
        datasets.read(path, energy_unit="kcalmol")
    with pytest.raises(ValueError, match="not energy/length"):
        datasets.read(path, forces_unit="Hartree")


def test_a_calculator_is_not_asked_to_compute():
    atoms = Atoms("Cu2", [[0, 0, 0], [0, 0, 2.4]])
    atoms.calc = EMT()
    assert datasets.Frame.from_atoms(atoms).energy is None
    atoms.calc = SinglePointCalculator(atoms, energy=1.0)
    assert datasets.Frame.from_atoms(atoms).forces is None


def test_iterate_gives_frames_before_it_meets_the_damage(tmp_path):
    frames = datasets.iterate(save(tmp_path, GOOD + "hello\n"))
    assert next(frames).energy == 1
    with pytest.raises(ValueError, match="hello"):
        next(frames)
