"""Strict configuration: unknown keys are refused with the closest match, all problems at once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

import pydantic
import yaml


class StrictModel(pydantic.BaseModel):
    """Base of every configuration: immutable, no unknown keys, defaults checked."""

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False
    )


Model = TypeVar("Model", bound=pydantic.BaseModel)


def load_yaml(path: str | os.PathLike[str], model: type[Model]) -> Model:
    """Read and check a YAML file.

    Args:
        path: the file.
        model: what the file must hold.

    Returns:
        The checked configuration.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: not YAML, a key given twice, or not what ``model`` describes; every problem is
            named.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"configuration file {str(path)!r} does not exist")
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file in UTF-8: {error}") from error
    return validate({} if data is None else data, model, str(path))


def validate(data: Any, model: type[Model], where: str) -> Model:
    """Check plain data against a model.

    Args:
        data: mapping of keys to values.
        model: what it must hold.
        where: name of the data's origin for messages.

    Returns:
        The checked configuration.

    Raises:
        ValueError: with one line for every problem; an unknown key is given with the closest
            known one.
    """
    if not isinstance(data, Mapping):
        seen = f"{type(data).__name__}: {_short(data)}"
        raise ValueError(f"{where} must hold keys and values, not {seen}")
    try:
        return model.model_validate(data)
    except pydantic.ValidationError as error:
        lines = [_describe(problem, model) for problem in error.errors(include_url=False)]
        head = f"{where} has {len(lines)} problem{'s' if len(lines) > 1 else ''}:"
        raise ValueError("\n".join([head, *(f"  {line}" for line in lines)])) from None


def _describe(problem: Any, model: type[pydantic.BaseModel]) -> str:
    location = problem["loc"]
    name = ".".join(_without_tags(model, location))
    if problem["type"] == "extra_forbidden":
        known = sorted(_known_keys(model, location[:-1]))
        close = get_close_matches(str(location[-1]), known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
        return f"unknown key {name!r}: {hint}"
    if problem["type"] == "missing":
        return f"{name}: this key is required"
    message = problem["msg"].removeprefix("Value error, ")
    if not location:
        return message
    return f"{name}: {message} (got {_short(problem['input'])})"


def _short(value: Any) -> str:
    seen = repr(value)
    return seen if len(seen) <= 80 else seen[:77] + "..."


def _known_keys(model: type[pydantic.BaseModel], location: tuple[Any, ...]) -> set[str]:
    """Names of all keys that may stand at ``location``; parts that are no key are passed over."""
    level = [model]
    for part in location:
        deeper = [
            inner
            for outer in level
            for field in _fields_at(outer, part)
            for inner in _models_within(field.annotation)
        ]
        level = deeper or level
    return {field.alias or name for member in level for name, field in member.model_fields.items()}


def _without_tags(model: type[pydantic.BaseModel], location: tuple[Any, ...]) -> list[str]:
    """Parts of a location without those that only say which of several sections was meant."""
    shown = []
    for depth, part in enumerate(location):
        last = depth == len(location) - 1
        if last or isinstance(part, int) or part in _known_keys(model, location[:depth]):
            shown.append(str(part))
    return shown


def _fields_at(model: type[pydantic.BaseModel], key: Any) -> Iterator[Any]:
    for name, field in model.model_fields.items():
        if key in (name, field.alias):
            yield field


def _models_within(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    """Configuration models in a type such as ``list[A] | B | None``."""
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_within(argument)


class _StrictLoader(yaml.SafeLoader):
    """YAML as people expect it: keys once, ``1e-3`` a number, only true and false booleans.

    YAML 1.1 reads ``1e-3`` as text and ``No`` (also the symbol of nobelium) as false.
    """

    yaml_implicit_resolvers = {
        first: [entry for entry in entries if not entry[0].endswith((":bool", ":float"))]
        for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        """A mapping in which every key stands once."""
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?"
        r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
        r"|[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|\.(?:inf|Inf|INF))$|^\.(?:nan|NaN|NAN)$"
    ),
    list("-+0123456789."),
)


def parse_foreign_yaml(text: str, where: str) -> dict[str, Any]:
    """A mapping in YAML that another program wrote; its Python objects become None.

    Args:
        text: the YAML.
        where: name of its origin for messages.

    Raises:
        ValueError: not YAML, or no mapping.
    """
    try:
        found = yaml.load(text, Loader=_ForeignLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not valid YAML: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{where} must hold keys and values, not {type(found).__name__}")
    return found


class _ForeignLoader(_StrictLoader):
    """Plain values only: nothing is looked up, made or called for a tag of Python's."""


_ForeignLoader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
