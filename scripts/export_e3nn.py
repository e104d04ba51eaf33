"""Write the state dict of an e3nn module to an npz file that mlpot.io.load_e3nn_weights reads.

Needs torch:  python scripts/export_e3nn.py checkpoint.pt weights.npz [key of the state dict]
"""

from __future__ import annotations

import sys

import numpy as np
import torch


def main() -> None:
    """Convert the file named on the command line."""
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    state = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
    if len(sys.argv) == 4:
        state = state[sys.argv[3]]
    np.savez(sys.argv[2], **{name: value.numpy() for name, value in state.items()})
    print(f"{len(state)} arrays written to {sys.argv[2]}")


if __name__ == "__main__":
    main()
