"""Python and YAML in the documentation: all of it parses, what is marked runs."""

import ast
import textwrap

import mlx.core as mx
import pytest
import yaml
from documentation import ROOT, Block, blocks

import mlpot
from mlpot import models
from mlpot.config import validate
from mlpot.md.config import MDConfig
from mlpot.training import TrainConfig

BLOCKS = blocks()
PYTHON = [block for block in BLOCKS if block.language in ("python", "py")]
CONFIGURATIONS = {"config:train": TrainConfig, "config:md": MDConfig}


def _scripts() -> dict[str, list[Block]]:
    """Marked blocks by page and name, in their order."""
    found: dict[str, list[Block]] = {}
    for block in PYTHON:
        if block.mark.startswith("run:"):
            found.setdefault(f"{block.file}:{block.mark.removeprefix('run:')}", []).append(block)
    return found


SCRIPTS = _scripts()


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with two small potentials of copper and the shipped data, as a reader has them."""
    for seed, name in enumerate(("best", "second")):
        mx.random.seed(seed)
        config = models.PotentialConfig(
            numbers=[29], cutoff=4.0, model=models.V2106Config(channels=4, layers=1, lmax=1)
        )
        mlpot.save(tmp_path / f"{name}.safetensors", models.Potential(config))
    for folder in ("models", "datasets"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_is_something_to_run():
    assert len(PYTHON) > 20
    assert len(SCRIPTS) > 12


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: f"{block.file}:{block.line}")
def test_python_parses(block):
    code = block.code
    if code.startswith(">>>"):
        code = "\n".join(line[4:] for line in code.splitlines() if line.startswith((">>>", "...")))
    ast.parse(textwrap.dedent(code))


@pytest.mark.parametrize("name", SCRIPTS)
def test_marked_blocks_run(name, workplace, capsys):
    namespace = {"__name__": "__main__"}
    for block in SCRIPTS[name]:
        # Empty lines before it, so that a traceback names the line of the page.
        code = "\n" * (block.line - 1) + block.code
        exec(compile(code, block.file, "exec"), namespace)


@pytest.mark.parametrize(
    "block",
    [block for block in BLOCKS if block.language == "yaml"],
    ids=lambda block: f"{block.file}:{block.line}",
)
def test_configurations_are_valid(block):
    data = yaml.safe_load(block.code)
    assert isinstance(data, dict)
    if block.mark:
        assert validate(data, CONFIGURATIONS[block.mark], block.file)


def test_a_wrong_configuration_is_noticed():
    with pytest.raises(ValueError, match="train_fil"):
        validate({"train_fil": "x.h5", "r_max": 5.0}, TrainConfig, "here")
