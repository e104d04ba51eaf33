"""Models: backbones and the potential that is made of one."""

from .config import PotentialConfig, V2106Config
from .message_passing import MessagePassing
from .point_convolution import PointConvolution
from .potential import Potential
from .v2106 import V2106Backbone
from .zbl import ZBL

__all__ = [
    "ZBL",
    "MessagePassing",
    "PointConvolution",
    "Potential",
    "PotentialConfig",
    "V2106Backbone",
    "V2106Config",
]
