"""Models: the potential, its backbones, and e3nn's point models in e3nn's terms."""

from . import gate_points, v2103, v2106
from .backbones import GatePointsBackbone, V2106Backbone
from .config import GatePointsConfig, NamedBackbone, NequIPConfig, PotentialConfig, V2106Config
from .message_passing import MessagePassing
from .messages import MessageSum
from .nequip import NequIPBackbone, NequIPLayer
from .point_convolution import PointConvolution
from .point_graph import PointGraph, point_graph
from .potential import Potential
from .zbl import ZBL

__all__ = [
    "ZBL",
    "GatePointsBackbone",
    "GatePointsConfig",
    "MessagePassing",
    "MessageSum",
    "NamedBackbone",
    "NequIPBackbone",
    "NequIPConfig",
    "NequIPLayer",
    "PointConvolution",
    "PointGraph",
    "Potential",
    "PotentialConfig",
    "V2106Backbone",
    "V2106Config",
    "gate_points",
    "point_graph",
    "v2103",
    "v2106",
]
