"""Configurations: strict, and clear about what is wrong."""

from __future__ import annotations

import pydantic
import pytest

from mlpot.config import StrictModel, load_yaml, validate


class Optimiser(StrictModel):
    learning_rate: float = pydantic.Field(0.01, gt=0)
    name: str = "adam"


class Run(StrictModel):
    r_max: float
    epochs: int = 10
    amsgrad: bool = False
    energies: dict[str, float] = {}
    optimiser: Optimiser = Optimiser()
    stages: list[Optimiser] = []
    extra: Optimiser | None = None


def read(tmp_path, text: str) -> Run:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return load_yaml(path, Run)


def test_values_are_read(tmp_path):
    run = read(
        tmp_path,
        "r_max: 5\nepochs: 1e2\namsgrad: true\nenergies: {C: -1e3, No: -2, Y: .5}\n"
        "optimiser: {learning_rate: 1e-3}\nstages:\n- {}\n- learning_rate: 2.5E-2\n",
    )
    assert run.r_max == 5.0
    assert run.epochs == 100
    assert run.amsgrad is True
    assert run.energies == {"C": -1000.0, "No": -2.0, "Y": 0.5}
    assert run.optimiser.learning_rate == 1e-3
    assert [stage.learning_rate for stage in run.stages] == [0.01, 0.025]


def test_configuration_is_immutable():
    run = validate({"r_max": 5.0}, Run, "test")
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        run.r_max = 6.0  # pyright: ignore


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rmax: 5\nr_max: 5", "unknown key 'rmax': did you mean 'r_max'?"),
        ("r_max: 5\noptimiser: {leaning_rate: 1}", "'optimiser.leaning_rate': did you mean"),
        ("r_max: 5\nstages: [{}, {nam: x}]", "'stages.1.nam': did you mean 'name'?"),
        ("r_max: 5\nextra: {nam: x}", "'extra.nam': did you mean 'name'?"),
        ("r_max: 5\noptimiser: {zzz: 1}", "known keys: learning_rate, name"),
        ("epochs: 3", "r_max: this key is required"),
        ("r_max: five", "got 'five'"),
        ("r_max: .nan", "r_max: Input should be a finite number"),
        ("r_max: 5\noptimiser: {learning_rate: -1}", "greater than 0 (got -1)"),
        ("- 1\n- 2", "must hold keys and values, not list"),
        ("r_max: 5\nr_max: 6", "key 'r_max' is given twice"),
        ("r_max: [5", "not valid YAML"),
        ("r_max: 5\namsgrad: No\nepochs: 1.5", "epochs: "),
        ("", "r_max: this key is required"),
    ],
)
def test_problems_are_named(tmp_path, text, words):
    with pytest.raises(ValueError) as caught:
        read(tmp_path, text)
    assert words in str(caught.value)
    assert "run.yaml" in str(caught.value)
    assert "pydantic" not in str(caught.value)


def test_all_problems_come_at_once(tmp_path):
    with pytest.raises(ValueError, match="has 3 problems") as caught:
        read(tmp_path, "epochs: x\noptimiser: {rate: 1}")
    assert len(str(caught.value).splitlines()) == 4


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_yaml(tmp_path / "none.yaml", Run)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not a text file"):
        load_yaml(tmp_path / "binary", Run)
