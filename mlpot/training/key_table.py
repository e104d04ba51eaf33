"""The keys of a configuration as a table: type, unit, default and meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pydantic
    from rich.table import Table

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


def key_table(model: type[pydantic.BaseModel]) -> Table:
    """The keys as a table for the terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title="Keys of the configuration", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("key", style="bold", no_wrap=True)
    table.add_column("type", max_width=22)
    table.add_column("default", max_width=14)
    table.add_column("meaning")
    for line in key_lines(model):
        unit = f" [{line.unit}]" if line.unit else ""
        cells = (line.name, line.type, line.default, f"{line.description}{unit}")
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _walk(schema: dict, definitions: dict, prefix: str) -> Iterator[KeyLine]:
    required = schema.get("required", [])
    for name, entry in schema["properties"].items():
        section = definitions.get(entry.get("$ref", "").rpartition("/")[2])
        description = entry.get("description", "")
        if section is not None and "properties" in section:
            yield KeyLine(prefix + name, "section", "", "", description)
            yield from _walk(section, definitions, f"{prefix}{name}.")
            continue
        default = "required" if name in required else _plain(entry.get("default"))
        yield KeyLine(prefix + name, _type(entry), entry.get("unit", ""), default, description)


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
