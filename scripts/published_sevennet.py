"""Makes tests/fixtures/sevennet_*.pth and their numbers: random models, by SevenNet itself.

Needs torch and sevenn 0.13.0, in an environment of their own:

    python scripts/published_sevennet.py
"""

from __future__ import annotations

import json
from pathlib import Path

import sevenn
import torch
from published_structures import evaluate, structures
from sevenn import _const
from sevenn.calculator import SevenNetCalculator
from sevenn.model_build import build_E3_equivariant_model

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
# Out of order, as in SevenNet-0, whose species follow the alphabet.
SYMBOLS = {14: 2, 11: 1, 17: 0}
COMMON = {
    "version": sevenn.__version__,
    "_model_type": "E3_equivariant_model",
    "chemical_species": ["Cl", "Na", "Si"],
    "_number_of_species": 3,
    "_type_map": SYMBOLS,
    "cutoff": 4.0,
    "channel": 4,
    "lmax": 2,
    "num_convolution_layer": 3,
    "weight_nn_hidden_neurons": [8, 8],
    "radial_basis": {"radial_basis_name": "bessel", "bessel_basis_num": 5},
    "shift": [-2.8, -1.3, -5.4],
    "scale": 17.0,
    "train_shift_scale": False,
}
VARIANTS = {
    "even": {
        "is_parity": False,
        "irreps_manual": ["4x0e", "4x0e+3x1e+2x2e", "4x0e+3x1e+2x2e", "4x0e"],
        "cutoff_function": {"cutoff_function_name": "XPLOR", "cutoff_on": 3.5},
        "self_connection_type": "linear",
        "conv_denominator": [2.0, 2.1, 2.2],
    },
    "parity": {
        "is_parity": True,
        "cutoff_function": {"cutoff_function_name": "poly_cut", "poly_cut_p_value": 6},
        "self_connection_type": "nequip",
        "conv_denominator": 1.5,
    },
}


def main() -> None:
    for seed, (name, options) in enumerate(VARIANTS.items()):
        torch.manual_seed(seed)
        defaults = dict(_const.DEFAULT_E3_EQUIVARIANT_MODEL_CONFIG)
        config = {**defaults, **COMMON, **options}
        for key in ("readout_fcn_hidden_neurons", "readout_fcn_activation"):
            config.pop(key, None)
        model = build_E3_equivariant_model(config)
        path = FIXTURES / f"sevennet_{name}.pth"
        torch.save({"model_state_dict": model.state_dict(), "config": config}, path)
        calculator = SevenNetCalculator(str(path), device="cpu")
        numbers = {key: evaluate(atoms, calculator) for key, atoms in structures().items()}
        path.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")
        print(path.name, path.stat().st_size, {k: v["energy"] for k, v in numbers.items()})


if __name__ == "__main__":
    main()
