"""Makes every file of e3nn's numbers in tests/fixtures again (needs torch and e3nn 0.6.0).

One thread, so that sums are taken in the same order: on one machine the files come out the same
byte for byte, on another they may differ in the last digit.

    python scripts/make_fixtures.py
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import torch

SCRIPTS = Path(__file__).parent


def main() -> None:
    torch.set_num_threads(1)
    sys.path.insert(0, str(SCRIPTS))
    for path in sorted(SCRIPTS.glob("fixtures_*.py")):
        # Whatever the script before has left.
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(0)
        print(f"{path.name}: ", end="", flush=True)
        importlib.import_module(path.stem).main()


if __name__ == "__main__":
    main()
