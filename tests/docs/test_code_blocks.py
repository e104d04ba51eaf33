"""Python of the documentation parses, and its configurations are valid as they stand."""

import ast
import textwrap

import pytest
import yaml
from documentation import blocks

from mlpot.config import validate
from mlpot.md.config import MDConfig
from mlpot.training import TrainConfig

BLOCKS = blocks(indented=True)
PYTHON = [block for block in BLOCKS if block.language == "python"]
YAML = [block for block in BLOCKS if block.language == "yaml"]
CONFIGURATIONS = {"config:train": TrainConfig, "config:md": MDConfig}


def test_there_are_blocks():
    assert len(PYTHON) > 20
    assert len(YAML) > 10


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: f"{block.file}:{block.line}")
def test_python_parses(block):
    code = block.code
    if code.startswith(">>>"):
        code = "\n".join(line[4:] for line in code.splitlines() if line.startswith((">>>", "...")))
    ast.parse(textwrap.dedent(code))


@pytest.mark.parametrize("block", YAML, ids=lambda block: f"{block.file}:{block.line}")
def test_configurations_are_valid(block):
    data = yaml.safe_load(block.code)
    assert isinstance(data, dict)
    if block.mark == "config:train":  # a page may show a part
        data = {"train_file": "mine.h5", "r_max": 5.0} | data
    assert validate(data, CONFIGURATIONS[block.mark], block.file)


def test_a_wrong_configuration_is_noticed():
    with pytest.raises(ValueError, match="train_fil"):
        validate({"train_fil": "x.h5", "r_max": 5.0}, TrainConfig, "here")
