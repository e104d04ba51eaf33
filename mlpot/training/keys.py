"""The keys of a configuration as a list: type, unit, default and meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pydantic
    from rich.console import Group

_TYPES = {
    "number": "number",
    "integer": "integer",
    "boolean": "true/false",
    "string": "text",
    "null": "null",
}


@dataclass(frozen=True)
class KeyLine:
    """A key of a configuration.

    Args:
        name: with the sections above it, ``scheduler.name``.
        type: what may stand there.
        unit: of its value, empty where it has none.
        default: as it would stand in a file; "required" where the key has to be given.
        description: what it means.
    """

    name: str
    type: str
    unit: str
    default: str
    description: str


def key_lines(model: type[pydantic.BaseModel]) -> list[KeyLine]:
    """All keys of a configuration in the order in which they are declared."""
    schema = model.model_json_schema()
    return list(_walk(schema, schema.get("$defs", {}), ""))


def key_list(model: type[pydantic.BaseModel]) -> Group:
    """The keys for the terminal: name, type, unit and default, and below it what it means."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    parts: list = [Text("Keys of the configuration file\n", style="bold")]
    for line in key_lines(model):
        depth = 2 * line.name.count(".")
        facts = [line.type, line.unit, line.default and f"default {line.default}"]
        if line.default == "required":
            facts[2] = line.default
        head = Text.assemble(
            (line.name, "bold cyan"), ("  " + ", ".join(filter(None, facts)), "dim")
        )
        parts += [Padding(head, (0, 0, 0, depth)), Padding(line.description, (0, 0, 0, depth + 4))]
    return Group(*parts)


def _walk(schema: dict, definitions: dict, prefix: str) -> Iterator[KeyLine]:
    required = schema.get("required", [])
    for name, entry in schema["properties"].items():
        section = _section(entry, definitions)
        description = entry.get("description", "")
        if "oneOf" in entry:
            yield KeyLine(prefix + name, "section", "", "", description)
            yield from _alternatives(entry, definitions, f"{prefix}{name}.")
            continue
        if section is not None and "properties" in section:
            # pydantic leaves out a description that repeats that of the section itself.
            said = description or section.get("description", "")
            yield KeyLine(prefix + name, "section", "", "", said)
            yield from _walk(section, definitions, f"{prefix}{name}.")
            continue
        items = _section(entry.get("items", {}), definitions)
        if items is not None:
            yield KeyLine(prefix + name, "list of sections", "", "[]", description)
            yield from _walk(items, definitions, f"{prefix}{name}.")
            continue
        default = "required" if name in required else _plain(entry.get("default"))
        yield KeyLine(prefix + name, _type(entry), entry.get("unit", ""), default, description)


def _section(entry: dict, definitions: dict) -> dict | None:
    for option in entry.get("anyOf", []):  # a section that may be left out
        if "$ref" in option:
            entry = option
    return definitions.get(entry.get("$ref", "").rpartition("/")[2])


def _alternatives(entry: dict, definitions: dict, prefix: str) -> Iterator[KeyLine]:
    """Keys of sections of which one is chosen by its name; each key once."""
    chosen_by = entry["discriminator"]["propertyName"]
    names = " | ".join(entry["discriminator"]["mapping"])
    found: dict[str, KeyLine] = {}
    for option in entry["oneOf"]:
        section = _section(option, definitions) or {}
        only = section["properties"][chosen_by]["const"]
        for line in _walk(section, definitions, prefix):
            if line.name == prefix + chosen_by:
                line = replace(line, type=names, default=entry["default"][chosen_by])
            elif line.name in found and found[line.name] != line:
                line = replace(line, name=f"{line.name} ({only})")
            found.setdefault(line.name, line)
    yield from found.values()


def _type(entry: dict) -> str:
    if "anyOf" in entry:
        return " or ".join(_type(option) for option in entry["anyOf"])
    if "enum" in entry:
        return " | ".join(map(str, entry["enum"]))
    if "const" in entry:
        return str(entry["const"])
    if entry.get("type") == "array":
        return f"list of {_type(entry['items'])}"
    if entry.get("type") == "object":
        return "mapping"
    return _TYPES[entry["type"]]


def _plain(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
