"""The layers of a network that have a radial network."""

from __future__ import annotations

from typing import Any

import mlx.nn

from .messages import MessageSum


def radial_layers(network: mlx.nn.Module) -> list[Any]:
    """Modules with a ``radial_table`` and a ``radial_network``, in the order of their names."""

    def key(named: tuple[str, Any]) -> list:
        return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in named[0].split(".")]

    found = [(name, m) for name, m in network.named_modules() if hasattr(m, "radial_table")]
    return [module for _, module in sorted(found, key=key)]


def message_sums(network: mlx.nn.Module) -> list[MessageSum]:
    """The convolutions of these layers."""
    return [layer._messages for layer in radial_layers(network)]
