"""Links resolve, generated pages say what the code says, pictures can be drawn again."""

import json
import posixpath
import typing
import xml.etree.ElementTree as ElementTree

import config_keys
import pages
import pictures
import pydantic
import pytest
from documentation import ROOT, links

from mlpot.cli.app import app
from mlpot.md.config import MDConfig, Stage
from mlpot.models import NequIPConfig, PotentialConfig
from mlpot.training import TrainConfig

# Pages of the site that are made when it is built, or come from outside docs/.
MADE = pages.names() | set(pages.OUTSIDE.values())


@pytest.mark.parametrize(("file", "target"), links(), ids=lambda one: one)
def test_link_resolves(file, target):
    path = posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
    assert (ROOT / path).exists() or path.removeprefix("docs/") in MADE


@pytest.mark.parametrize("model", [TrainConfig, MDConfig, NequIPConfig])
def test_every_key_is_listed_with_its_default(model):
    found = {key.name: key for key in config_keys.keys(model) if not key.section}
    assert list(found) == list(model.model_fields)
    for name, field in model.model_fields.items():
        assert found[name].meaning
        if field.is_required():
            assert found[name].default == "required"
        elif found[name].default != "section":
            assert json.loads(found[name].default) == field.get_default(), name


def test_sections_and_units_are_found():
    found = {(key.section, key.name): key for key in config_keys.keys(MDConfig)}
    assert {name for section, name in found if section == "stages"} == set(Stage.model_fields)
    assert found["stages", "friction"].unit == "1/ps"
    assert found["", "timestep"].unit == "fs"
    assert found["stages", "temperature"].type == "number or list of 2 numbers or null"
    training = {(key.section, key.name): key for key in config_keys.keys(TrainConfig)}
    assert training["", "r_max"].unit == "Angstrom"
    assert training["", "r_max"].type == "number > 0"
    assert training["model (nequip)", "irreps"].default == "null"
    assert training["units", "energy_unit"].unit == ""


def sections_of(model: type[pydantic.BaseModel]) -> set[type[pydantic.BaseModel]]:
    """A configuration and all sections that may stand in it, from its annotations."""
    found = {model}
    waiting = [field.annotation for field in model.model_fields.values()]
    while waiting:
        hint = waiting.pop()
        waiting += typing.get_args(hint)
        if isinstance(hint, type) and issubclass(hint, pydantic.BaseModel) and hint not in found:
            found.add(hint)
            waiting += [field.annotation for field in hint.model_fields.values()]
    return found


@pytest.mark.parametrize("model", [TrainConfig, MDConfig, PotentialConfig])
def test_no_section_is_left_out(model):
    listed: dict[str, list[str]] = {}
    for key in config_keys.keys(model):
        listed.setdefault(key.section, []).append(key.name)
        assert key.type
        assert key.meaning, key
    sections = sections_of(model)
    assert len(sections) >= 3
    for one in sections:
        assert list(one.model_fields) in listed.values(), one.__name__


def test_text_of_tables_is_not_markup():
    assert pages.cell("a* | b* in `c*`\n") == "a\\* \\| b\\* in `c*` "


def test_numbers_with_a_unit_say_it():
    units = {key.unit for model in (TrainConfig, MDConfig) for key in config_keys.keys(model)}
    assert units >= {"K", "fs", "ps", "1/ps", "GPa", "Angstrom", "eV", "eV/Angstrom", "GB"}


def test_every_package_has_a_page():
    internal = {"cli", "config", "files"}
    folder = ROOT / "mlpot"
    names = {
        path.stem
        for path in folder.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    public = {name for name in names if not name.startswith("_")}
    assert public - internal == set(pages.MODULES)
    said = pages.overview()
    assert all(f"[mlpot.{name}]" in said for name in pages.MODULES)


def test_command_page_names_every_verb_and_option():
    page = pages.command_line()
    assert app.registered_commands
    for verb in app.registered_commands:
        name = verb.name or verb.callback.__name__
        part = page.split(f"\n## mlpot {name}\n")[1].split("\n## ")[0]
        rows = [line for line in part.splitlines() if line.startswith("| `")]
        parameters = pages.parameter_kinds(verb.callback).keys() - {"return", "show_help"}
        for parameter in parameters:
            option = f"`--{parameter.replace('_', '-')}`"
            assert option in part or f"`{parameter.upper()}`" in part or "`IN... OUT`" in part
        assert len(rows) >= len(parameters)


def test_reference_has_every_public_name():
    import mlpot

    for module in ("derivatives", "workflows", "calculators"):
        page = pages.module_page(module)
        for name in getattr(mlpot, module).__all__:
            found = getattr(getattr(mlpot, module), name)
            line = f"::: {found.__module__}.{name}\n"
            assert found.__module__.startswith(f"mlpot.{module}.") and line in page


@pytest.mark.parametrize("module", [m for m in pages.MODULES if m not in ("units", "elements")])
def test_no_public_name_is_left_out(module):
    import mlpot

    page = pages.module_page(module)
    for name in getattr(mlpot, module).__all__:
        lines = [line for line in page.splitlines() if line.startswith(("::: ", "| `", "## "))]
        words = {line.rpartition(".")[2] for line in lines} | {
            line.split("`")[1] for line in lines if "`" in line
        }
        assert name in words | {line.removeprefix("## ") for line in lines}


def test_constants_have_their_values():
    import mlpot

    page = pages.module_page("units")
    assert f"| `HARTREE` | `{mlpot.units.HARTREE!r}` |" in page


def test_pictures_are_drawn_again(tmp_path):
    drawn = pictures.draw(tmp_path)
    names = {path.name for path in drawn}
    assert names == {path.name for path in (ROOT / "docs/pictures").glob("concepts-*.svg")}
    for path in drawn:
        shapes = ElementTree.parse(path).getroot().iter("{http://www.w3.org/2000/svg}path")
        assert sum(1 for _ in shapes) > 10


def test_parity_table_has_the_figures_of_the_report():
    path = ROOT / "evals/results/parity-0.json"
    table = pages.parity_table(path)
    report = json.loads(path.read_text())
    for name, row in report["operations"].items():
        (line,) = [one for one in table.splitlines() if one.startswith(f"| `{name}` |")]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert int(cells[1]) == row["cases"]
        assert float(cells[2]) == pytest.approx(row["float64"]["value"], rel=0.5)
