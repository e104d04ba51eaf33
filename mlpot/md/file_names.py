"""Names of the files that a staged run writes to its folder."""

from __future__ import annotations

LOG, SUMMARY, CONFIG = "log.csv", "summary.json", "config.json"
RESTART, START = "restart.npz", "start.npz"
FINAL, LAST_GOOD = "final.extxyz", "last_good.extxyz"
UNCERTAIN, DISAGREEMENT = "uncertain.extxyz", "disagreement.csv"
PICTURES = ("energies.png", "temperature.png", "cell.png", "rdf.png", "msd.png")

TRAJECTORY_SUFFIXES = ("h5", "extxyz", "traj")


def check_trajectory(name: str) -> None:
    """Refuse a name of a trajectory that is not a plain one, or is that of another file.

    Raises:
        ValueError: with a name that would do.
    """
    stem, _, suffix = name.rpartition(".")
    if "/" in name or "\0" in name or not stem or suffix not in TRAJECTORY_SUFFIXES:
        raise ValueError(
            f"trajectory {name!r}: give a plain file name that ends in .h5, .extxyz or .traj; it "
            "is written to the folder of `out`"
        )
    # Many file systems do not tell capitals apart.
    if name.lower() in (FINAL, LAST_GOOD, UNCERTAIN):
        raise ValueError(
            f"trajectory {name!r}: the run writes another file of that name; give another name, "
            f"e.g. trajectory.{suffix}"
        )
