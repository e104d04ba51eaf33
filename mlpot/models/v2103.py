"""The point models of e3nn's v2103, under e3nn's names, arguments and weight names.

They differ from v2106 by the mixing of the convolution (an angle) and the radial basis (cosine);
arguments are the same.
"""

from __future__ import annotations

from . import v2106
from .point_networks import V2103

__all__ = ["Convolution", "MessagePassing", "NetworkForAGraphWithAttributes", "SimpleNetwork"]


class Convolution(v2106.Convolution):
    """Convolution of v2103; see `PointConvolution` for the equations."""

    _family = V2103


class MessagePassing(v2106.MessagePassing):
    """Gated convolutions of v2103, then a plain one."""

    _family = V2103


class SimpleNetwork(v2106.SimpleNetwork):
    """Network without attributes: `data` has ``pos``, ``x`` and what `point_graph` takes."""

    _family = V2103


class NetworkForAGraphWithAttributes(v2106.NetworkForAGraphWithAttributes):
    """Network with node and edge attributes; the user's edge attributes precede the harmonics."""

    _family = V2103
