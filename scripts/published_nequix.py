"""Makes tests/fixtures/nequix_small.nqx and its numbers: a random Nequix model, by Nequix itself.

Needs nequix 0.4.5 (JAX), in an environment of its own:

    python scripts/published_nequix.py
"""

from __future__ import annotations

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
from nequix.calculator import NequixCalculator
from nequix.model import Nequix, save_model
from published_structures import evaluate, structures

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
CONFIG = {
    "cutoff": 4.0,
    # Out of order, which the program allows: it numbers species in ascending order.
    "atomic_numbers": [14, 11, 17],
    "hidden_irreps": "4x0e + 3x1o + 2x2e",
    "lmax": 2,
    "n_layers": 3,
    "radial_basis_size": 5,
    "radial_mlp_size": 8,
    "radial_mlp_layers": 2,
    "radial_polynomial_p": 6.0,
    "mlp_init_scale": 4.0,
    "index_weights": False,
    "layer_norm": True,
    "shift": 0.3,
    "scale": 8.0,
    "avg_n_neighbors": 5.0,
}


def main() -> None:
    arguments = {k: v for k, v in CONFIG.items() if k not in ("atomic_numbers",)}
    energies = [-1.3, -5.4, -2.8]  # Na, Si, Cl
    model = Nequix(jax.random.key(0), n_species=3, atom_energies=energies, **arguments)

    # The norms' scales are ones at the start, which would not tell them apart.
    keys = iter(jax.random.split(jax.random.key(1), 100))
    model = eqx.tree_at(
        lambda m: [layer.layer_norm.affine_weight for layer in m.layers],
        model,
        replace_fn=lambda ws: [w + 0.3 * jax.random.normal(next(keys), w.shape) for w in ws],
    )
    path = FIXTURES / "nequix_small.nqx"
    save_model(str(path), model, CONFIG)
    calculator = NequixCalculator(model_path=str(path), backend="jax", use_kernel=False)
    numbers = {key: evaluate(atoms, calculator) for key, atoms in structures().items()}
    path.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")
    print(path.name, path.stat().st_size, {k: v["energy"] for k, v in numbers.items()})
    assert all(jnp.isfinite(jnp.array(v["forces"])).all() for v in numbers.values())


if __name__ == "__main__":
    main()
