"""Python of the documentation parses, and its configurations are valid as they stand."""

import ast
import re
import textwrap

import pytest
import yaml
from documentation import ROOT, blocks, files

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


#: What a configuration needs besides the key that a sentence shows.
REST = {
    TrainConfig: {"train_file": "mine.h5", "r_max": 5.0},
    MDConfig: {"model": "best.safetensors", "struct": "x.xyz", "out": "run"},
}


def inline() -> list[tuple[str, str]]:
    """Keys with values within sentences, as (file, YAML)."""
    found = []
    for path in files():
        for code in re.findall(r"(?<!`)`(\w+: [^`\n]+)`(?!`)", path.read_text()):
            known = any(code.split(":")[0] in one.model_fields for one in REST)
            if known and "..." not in code:
                found.append((path.relative_to(ROOT).as_posix(), code))
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(("file", "code"), inline(), ids=lambda one: one)
def test_keys_in_sentences_are_valid(file, code):
    data = yaml.safe_load(code)
    problems = []
    for model, rest in REST.items():
        try:
            validate(rest | data, model, file)
            return
        except ValueError as error:
            problems.append(str(error))
    raise AssertionError(problems)


def test_the_words_of_mace_are_ours_too():
    (row,) = [
        line
        for line in (ROOT / "docs/coming-from.md").read_text().splitlines()
        if "(MACE's options)" in line
    ]
    words = re.findall(r"`(\w+)`", row.split("|")[1])
    assert len(words) > 10
    assert set(words) <= set(TrainConfig.model_fields)


def test_a_wrong_configuration_is_noticed():
    with pytest.raises(ValueError, match="train_fil"):
        validate({"train_fil": "x.h5", "r_max": 5.0}, TrainConfig, "here")
