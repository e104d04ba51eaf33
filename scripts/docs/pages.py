"""Pages that are made from the code: configuration keys, commands, public names."""

from __future__ import annotations

import ast
import importlib
import json
import re
import types
import typing
from pathlib import Path

import typer
from config_keys import Key, keys

ROOT = Path(__file__).resolve().parents[2]
#: Pages of the repository that lie outside docs/ and are part of the site.
OUTSIDE = {
    "models/README.md": "models.md",
    "datasets/README.md": "datasets.md",
    "tutorials/README.md": "tutorials.md",
    "calculators/README.md": "calculators.md",
    "md/README.md": "md.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
MODULES = (
    "o3", "nn", "kernels", "graph", "models", "derivatives", "io", "datasets", "calculators", "md",
    "training", "workflows", "testing", "units", "elements",
)  # fmt: skip
#: Page, title, configuration as module and class, where it stands, what it says first.
CONFIGURATIONS = (
    (
        "reference/train.md",
        "Keys of `mlpot train`",
        ("mlpot.training", "TrainConfig"),
        "The YAML file of `mlpot train CONFIG`. Unknown keys are refused, with the nearest known "
        "one; `mlpot train --help` prints this list and `mlpot train --schema` a JSON schema for "
        "editors. How to use them: [train on your data](../howto/train.md).",
    ),
    (
        "reference/md.md",
        "Keys of `mlpot md`",
        ("mlpot.md.config", "MDConfig"),
        "The YAML file of `mlpot md CONFIG`; names of files count from its folder. How to use "
        "them: [molecular dynamics](../howto/md.md).",
    ),
    (
        "reference/potential.md",
        "Keys of a potential",
        ("mlpot.models", "PotentialConfig"),
        "What `models.PotentialConfig` takes and every model file holds; `mlpot info MODEL` "
        "prints it. Training fills in all but the network itself.",
    ),
)
PAGES = {name: f"reference/{'md-module' if name == 'md' else name}.md" for name in MODULES}
NAVIGATION = [
    "reference/cli.md",
    *(page for page, *_ in CONFIGURATIONS),
    {"Python": ["reference/index.md", *PAGES.values()]},
]


#: Kinds of constants.
PLAIN = (str, int, float, tuple, list, dict)


def names() -> set[str]:
    """Pages that are made here."""
    return set(make())


def make() -> dict[str, str]:
    """Markdown of every generated page by its name."""
    made = {"reference/cli.md": command_line(), "reference/index.md": overview(), **tutorials()}
    for page, title, (module, name), text in CONFIGURATIONS:
        found = keys(getattr(importlib.import_module(module), name))
        made[page] = f"# {title}\n\n{text}\n\n{key_table(found)}"
    for name in MODULES:
        made[PAGES[name]] = module_page(name)
    return made


def tutorials() -> dict[str, str]:
    """A page for each tutorial: what it says of itself, and its text."""
    found = {}
    for path in sorted((ROOT / "tutorials").glob("*.py")):
        text = path.read_text()
        title = (ast.get_docstring(ast.parse(text)) or path.stem).splitlines()[0].rstrip(".:")
        found[f"tutorials/{path.stem}.md"] = (
            f"# {title}\n\n`tutorials/{path.name}`\n\n```python\n{text}```\n"
        )
    return found


def cell(text: str) -> str:
    """Text that may stand in a table; asterisks outside of code are no emphasis."""
    parts = text.replace("|", "\\|").replace("\n", " ").split("`")
    parts[::2] = [part.replace("*", "\\*") for part in parts[::2]]
    return "`".join(parts)


def key_table(found: list[Key]) -> str:
    """Keys as tables, a heading for each section."""
    lines = ["<div class='keys' markdown>", ""]
    section = None
    for one in found:
        if one.section != section:
            section = one.section
            lines += ["", *([f"## {section}", ""] if section else [])]
            lines += ["| key | type | unit | default | meaning |", "|---|---|---|---|---|"]
        default = "" if one.default == "section" else one.default
        shown = f"`{default}`" if default and default != "required" else default
        lines.append(
            f"| `{one.name}` | {cell(one.type)} | {cell(one.unit)} | {cell(shown)} | "
            f"{cell(one.meaning)} |"
        )
    return "\n".join([*lines, "", "</div>", ""])


def command_line() -> str:
    """All verbs with their arguments and options."""
    from mlpot.cli.app import app

    group = typer.main.get_command(app)
    context = group.make_context("mlpot", [], resilient_parsing=True)
    callbacks = {c.name or c.callback.__name__: c.callback for c in app.registered_commands}
    lines = [
        "# Commands",
        "",
        "`mlpot VERB --help` prints the same. `--debug`, anywhere, shows where an error arose. An "
        "error is one message on stderr; exit codes are 0 for success, 1 for an error, 2 for wrong "
        "usage.",
        "",
    ]
    for verb in group.list_commands(context):
        command = group.get_command(context, verb)
        help_text = re.sub(r"^(mlpot .*)$", r"    \1", command.help or "", flags=re.M)
        kinds = parameter_kinds(callbacks[verb])
        lines += [f"## mlpot {verb}", "", f"    mlpot {verb} {usage(command.params)}", ""]
        lines += [help_text, ""]
        if verb in ("train", "md"):
            lines += [f"All keys of the configuration file: [keys of mlpot {verb}]({verb}.md).", ""]
        lines += ["| | type | default | meaning |", "|---|---|---|---|"]
        for parameter in command.params:
            if "--help" in parameter.opts and verb != "train":
                continue
            lines.append(parameter_row(parameter, kinds))
        lines.append("")
    return "\n".join(lines)


def usage(parameters) -> str:
    """Arguments and required options."""
    words = []
    for one in parameters:
        if one.param_type_name == "argument":
            name = one.metavar or one.name.upper() + ("..." if one.nargs != 1 else "")
            words.append(name if one.required else f"[{name}]")
        elif one.required:
            words.append(f"{one.opts[0]} {one.name.upper()}")
    return " ".join([*words, "[OPTIONS]"])


def parameter_kinds(callback) -> dict[str, str]:
    """What kind of value each parameter of a command takes."""
    words = {str: "text", int: "integer", float: "number", Path: "path"}
    kinds = {}
    for name, hint in typing.get_type_hints(callback).items():
        options = [one for one in typing.get_args(hint) or (hint,) if one is not type(None)]
        kinds[name] = words.get(options[0], "") if options else ""
        if typing.get_origin(hint) is list:
            kinds[name] += " ..."
    return kinds


def parameter_row(parameter, kinds: dict[str, str]) -> str:
    """A row for an argument or an option."""
    option = parameter.param_type_name == "option"
    if option:
        words = [*parameter.opts, *parameter.secondary_opts]
        name = ", ".join(f"`{word}`" for word in sorted(words, key=len, reverse=True))
    else:
        name = f"`{parameter.metavar or parameter.name.upper()}`"
    flag = getattr(parameter, "is_flag", False)
    kind = "switch" if flag else kinds.get(parameter.name, "")
    default = parameter.default
    if parameter.required:
        shown = "required"
    elif flag:
        shown = "on" if default else "off"
    else:
        shown = "" if default is None or default == [] else f"`{default}`"
    return f"| {name} | {kind} | {cell(shown)} | {cell(getattr(parameter, 'help', None) or '')} |"


def overview() -> str:
    """The list of modules."""
    lines = [
        "# Python",
        "",
        "Subpackages are imported at first use: `import mlpot` is enough. Names that these pages "
        "do not list are internal and may change.",
        "",
        "- `mlpot.load(path)`, `mlpot.save(path, potential)`: see [mlpot.io](io.md)",
    ]
    for name in MODULES:
        first = (importlib.import_module(f"mlpot.{name}").__doc__ or "").strip().splitlines()[0]
        lines.append(f"- [mlpot.{name}]({PAGES[name].rpartition('/')[2]}): {first}")
    return "\n".join([*lines, ""])


def module_page(name: str) -> str:
    """The public names of a module, each with what its docstring says."""
    module = importlib.import_module(f"mlpot.{name}")
    public = getattr(module, "__all__", None)
    title = f"# mlpot.{name}\n\n{(module.__doc__ or '').strip()}\n\n"
    if public is None:  # constants and functions of a plain module
        options = "show_root_heading: false\n      show_root_toc_entry: false"
        table = constants(
            module, [item for item in vars(module) if item.isupper() and item[0] != "_"]
        )
        return f"{title}{table}::: mlpot.{name}\n    options:\n      {options}\n"
    plain = [item for item in public if isinstance(getattr(module, item), PLAIN)]
    spaces = [item for item in public if isinstance(getattr(module, item), types.ModuleType)]
    rest = [item for item in public if item not in (*plain, *spaces)]
    parts = [f"::: {where(f'mlpot.{name}', item)}\n" for item in rest]
    parts += [submodule(f"mlpot.{name}.{item}") for item in spaces]
    return title + constants(module, plain) + "\n".join(parts)


def constants(module, names: list[str]) -> str:
    """A table of constants; of mappings the keys."""
    if not names:
        return ""
    lines = ["| constant | value |", "|---|---|"]
    for name in names:
        value = getattr(module, name)
        shown = ", ".join(map(str, value)) if isinstance(value, dict) else repr(value)
        if len(shown) > 120:
            shown = f"{len(value)} values"
        of = "mapping of " if isinstance(value, dict) else ""
        lines.append(f"| `{name}` | {of}`{shown}` |")
    return "\n".join([*lines, "", ""])


def where(module: str, name: str) -> str:
    """Path of what a module calls ``name``, from where it is defined.

    Functions that are called as their file would be taken for the file otherwise.
    """
    value = getattr(importlib.import_module(module), name)
    origin = getattr(value, "__module__", None)
    if isinstance(value, type | types.FunctionType) and origin and origin.startswith("mlpot"):
        return f"{origin}.{value.__qualname__}"
    return f"{module}.{name}"


def submodule(path: str) -> str:
    """The public classes and functions of a submodule that is a namespace of its own."""
    module = importlib.import_module(path)
    public = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == path and not name.startswith("_")
    ]
    body = "\n".join(
        f"::: {path}.{item}\n    options:\n      heading_level: 3\n" for item in public
    )
    return f"## {path.rpartition('.')[2]}\n\n{(module.__doc__ or '').strip()}\n\n{body}"


def parity_table(path: Path) -> str:
    """The table of a parity report: the largest error of each operation."""
    report = json.loads(path.read_text())
    machine, versions = report["machine"], report["versions"]
    lines = [
        f"{report['cases']} cases, {report['failed']} failed; {machine['processor']}, mlpot "
        f"{versions['mlpot']}, MLX {versions['mlx']}, e3nn {versions['e3nn']}; a case fails above "
        f"{report['tolerances']['float64']:g} (float64) or {report['tolerances']['float32']:g} "
        "(float32).",
        "",
        "| operation | cases | float64: value | vjp | jvp | float32: value | vjp | jvp |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in report["operations"].items():
        numbers = [
            f"{row[t][q]:.0e}" for t in ("float64", "float32") for q in ("value", "vjp", "jvp")
        ]
        lines.append(f"| `{name}` | {row['cases']} | {' | '.join(numbers)} |")
    return "\n".join(lines)
