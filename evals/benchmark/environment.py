"""What a report says about the machine."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path


def describe(command: str) -> dict:
    """Machine, date and command."""
    return {
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": [round(x, 2) for x in os.getloadavg()],
        "gpu": _gpu(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def this_run() -> dict:
    """Machine, date and the command line of the script that runs."""
    path = Path(sys.argv[0])
    return describe("python " + shlex.join([f"{path.parent.name}/{path.name}", *sys.argv[1:]]))


def busy(environment: dict) -> str:
    """A warning if the machine had other things to do when the run began, else ""."""
    load, cores = environment["load"][0], environment["cores"]
    if load <= 0.5 * cores:
        return ""
    return (
        f"the machine was busy: load {load} on {cores} cores at the start. Threads then wait for "
        "each other, and speedups over packages with several threads come out too large"
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(s.split(":")[1].strip() for s in lines if s.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def _gpu() -> str:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    command = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip()
