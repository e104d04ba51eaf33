"""Lists the public names of e3nn 0.6.0 for tests/fixtures/e3nn_names.txt (needs torch and e3nn).

Public are the names that a namespace exports, or defines where it exports nothing, and the public
methods and properties of Irrep and Irreps.

    python scripts/list_e3nn_names.py
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from pathlib import Path

from fixtures_models import stand_ins

OUT = Path(__file__).parent.parent / "tests" / "fixtures" / "e3nn_names.txt"
NAMESPACES = ["o3", "nn", "math", "math.perm"]
MODELS = [
    "gate_points_2101",
    "gate_points_2102",
    "v2103.conv_points_in_out",
    "v2103.gate_points_message_passing",
    "v2103.gate_points_networks",
    "v2103.points_convolution",
    "v2106.gate_points_message_passing",
    "v2106.gate_points_networks",
    "v2106.points_convolution",
]
CLASSES = ["o3.Irrep", "o3.Irreps"]


def defined(module) -> list[str]:
    """Public classes and functions that a module defines itself, without its tests."""
    return [
        name
        for name, value in vars(module).items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
        and not name.startswith(("_", "test"))
    ]


def members(cls: type) -> list[str]:
    """Public members that a class defines itself."""
    return [name for name in vars(cls) if not name.startswith("_")]


def names() -> list[str]:
    """All of them, sorted, without the leading ``e3nn.``."""
    warnings.filterwarnings("ignore")
    stand_ins()
    found = []
    for namespace in NAMESPACES:
        module = importlib.import_module(f"e3nn.{namespace}")
        public = getattr(module, "__all__", None) or defined(module)
        found += [f"{namespace}.{name}" for name in public]
    for model in MODELS:
        module = importlib.import_module(f"e3nn.nn.models.{model}")
        found += [f"nn.models.{model}.{name}" for name in defined(module)]
    for path in CLASSES:
        namespace, name = path.split(".")
        cls = getattr(importlib.import_module(f"e3nn.{namespace}"), name)
        found += [f"{path}.{member}" for member in members(cls)]
    return sorted(found)


def main() -> None:
    found = names()
    OUT.write_text("\n".join(found) + "\n")
    print(f"{len(found)} names in {OUT.name}")


if __name__ == "__main__":
    main()
