"""Keys of a configuration, read from its pydantic schema: type, unit, default and meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pydantic

_PLAIN = {
    "number": "number",
    "integer": "integer",
    "boolean": "true/false",
    "string": "text",
    "null": "null",
    "object": "mapping",
}
#: Units that descriptions name after a comma or alone, where the schema has no unit of its own.
_UNIT = re.compile(
    r"(?:^|, |; |\()(1/ps|1/GPa|eV/Angstrom\^?\d?|Angstrom|eV|fs|ps|GPa|GB|K)(?=$|[;:,.)])"
)


@dataclass(frozen=True)
class Key:
    """A key of a configuration.

    Args:
        section: heading under which it stands; empty at the top level.
        name: of the key.
        type: what may stand there.
        unit: of its value.
        default: as in a file; "required" where it has to be given.
        meaning: what it is.
    """

    section: str
    name: str
    type: str
    unit: str
    default: str
    meaning: str


def keys(model: type[pydantic.BaseModel]) -> list[Key]:
    """All keys, those of the top level first, then section by section."""
    schema = model.model_json_schema()
    return list(_walk(schema, schema.get("$defs", {}), ""))


def _walk(schema: dict, definitions: dict, section: str) -> Iterator[Key]:
    inner: list[tuple[dict, str]] = []
    for name, entry in schema["properties"].items():
        path = f"{section}.{name}" if section else name
        found = _sections(entry, definitions)
        kind = " | ".join(dict.fromkeys(title for _, title in found)) if found else ""
        for part, title in found:
            many = len(found) > 1
            inner.append((part, f"{path} ({title})" if many else path))
        # pydantic leaves out a description that repeats that of the section itself.
        meaning = (
            entry.get("description", "") or (found and found[0][0].get("description", "")) or ""
        )
        unit = entry.get("unit") or (_unit_in(meaning) if "number" in str(entry) else "")
        optional = {"type": "null"} in entry.get("anyOf", [])
        if name in schema.get("required", []):
            default = "required"
        else:
            default = "section" if found and not optional else json.dumps(entry.get("default"))
        shown = _type(entry, definitions) if not found else (kind if len(found) > 1 else "section")
        if found and optional:
            shown += " or null"
        if found and entry.get("type") == "array":
            shown = "list of sections"
        yield Key(section, name, shown, unit, default, meaning)
    for part, path in inner:
        yield from _walk(part, definitions, path)


def _sections(entry: dict, definitions: dict) -> list[tuple[dict, str]]:
    """Sections that may stand there, each with its name."""
    # "anyOf" has a section or null.
    options = entry.get("oneOf") or entry.get("anyOf") or [entry.get("items", entry)]
    found = []
    for option in options:
        part = definitions.get(option.get("$ref", "").rpartition("/")[2], {})
        if "properties" in part:
            name = part["properties"].get("name", {}).get("const", part.get("title", ""))
            found.append((part, name))
    return found


def _type(entry: dict, definitions: dict) -> str:
    if "$ref" in entry:
        entry = definitions[entry["$ref"].rpartition("/")[2]]
    if "anyOf" in entry:
        return " or ".join(_type(option, definitions) for option in entry["anyOf"])
    if "enum" in entry:
        return " | ".join(f"`{value}`" for value in entry["enum"])
    if "const" in entry:
        return f"`{entry['const']}`"
    if "prefixItems" in entry:
        return f"list of {len(entry['prefixItems'])} {_type(entry['prefixItems'][0], definitions)}s"
    if entry.get("type") == "array":
        return f"list of {_type(entry['items'], definitions)}s"
    return _limits(_PLAIN[entry["type"]], entry)


def _limits(name: str, entry: dict) -> str:
    bounds = (
        ("exclusiveMinimum", ">"), ("minimum", ">="), ("exclusiveMaximum", "<"), ("maximum", "<="),
    )  # fmt: skip
    told = [f"{sign} {entry[key]:g}" for key, sign in bounds if key in entry]
    return f"{name} {', '.join(told)}" if told else name


def _unit_in(meaning: str) -> str:
    found: Any = _UNIT.search(meaning)
    return found[1] if found else ""
