"""Random inputs, the same for the script that makes reference numbers and for the tests."""

from __future__ import annotations

import numpy as np


def draw(kind: str, shape: list[int], rng: np.random.Generator) -> np.ndarray:
    """Float64 numbers: normal, positive, radius (0..6), angle, polar (0..pi), unit (last axis),
    or rotation (..., 3, 3).
    """
    if kind == "angle":
        return rng.uniform(-np.pi, np.pi, shape)
    if kind == "polar":
        return rng.uniform(0.2, np.pi - 0.2, shape)
    if kind == "radius":
        return rng.uniform(0, 6, shape)
    x = rng.normal(size=shape)
    if kind == "positive":
        return 0.3 + np.abs(x)
    if kind == "unit":
        return x / np.linalg.norm(x, axis=-1, keepdims=True)
    if kind == "rotation":
        q, _ = np.linalg.qr(x)
        return q * np.linalg.det(q)[..., None, None]
    assert kind == "normal"
    return x


def draw_all(case: dict) -> list[np.ndarray]:
    """Inputs of a case."""
    rng = np.random.default_rng(case["seed"])
    return [draw(kind, shape, rng) for kind, shape in case["inputs"]]


def draw_directions(case: dict, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Directions in the inputs for second derivatives, and the cotangent of the output last."""
    rng = np.random.default_rng(case["seed"] + 500_000)
    return [rng.normal(size=shape) for shape in shapes]
