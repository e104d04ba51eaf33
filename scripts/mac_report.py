"""Checks and times mlpot on a Mac's GPU and writes one file to send back.

    ./scripts/mac_report                      some minutes; mlpot-report.zip
    ./scripts/mac_report --anyway --quick     on any machine, a few checks only

The file holds: what `mlpot doctor` says, every GPU kernel against float64 with times
(gpu_check.py, convolution_gpu.py), the checks of mlpot.testing, whole potentials on the GPU in
float32 against the CPU in float64, and a small benchmark. The names of your home folder and user
are taken out. Nothing is sent: that is yours to do. Exit code 0: all right; 1: something differs or
failed, which makes the report the more welcome; 2: not a Mac.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from mlpot.files import atomic_write

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 1800


@dataclass(frozen=True)
class Step:
    """One part of the report.

    Args:
        name: of its log.
        command: words after the interpreter.
        needs_gpu: left out where MLX finds none.
    """

    name: str
    command: list[str]
    needs_gpu: bool = False


def steps(folder: Path, quick: bool, gpu: bool) -> list[Step]:
    """What is run; files go to the folder."""
    device = "gpu" if gpu else "cpu"
    benchmark = ["evals/run.py", "--preset", "smoke", "--device", device]
    benchmark += ["--out", str(folder / "benchmark")]
    potentials = ["scripts/gpu_potentials.py", "--json", str(folder / "potentials.json")]
    convolution = ["evals/convolution_gpu.py", "--out", str(folder / "convolution_gpu.json")]
    if quick:
        convolution += ["--small"]
        benchmark += ["--case", "linear", "--phase", "forward"]
        benchmark += ["--implementation", "mlpot-kernels"]
        potentials += ["--quick"]
    check = ["scripts/gpu_check.py", "--json", str(folder / "gpu_check.json")]
    return [
        Step("doctor", ["-m", "mlpot.cli.app", "doctor"]),
        Step("gpu_check", check, needs_gpu=True),
        Step("convolution_gpu", convolution, needs_gpu=True),
        Step("potentials", potentials),
        Step("benchmark", benchmark),
    ]


def anonymous(text: str) -> str:
    """Without the names of the home folder, this checkout and the user."""
    for private, public in ((str(ROOT), "."), (str(Path.home()), "~"), (platform.node(), "host")):
        if len(private) > 1:
            text = text.replace(private, public)
    return text.replace(f"/{getpass.getuser()}/", "/user/")


def run(step: Step, folder: Path) -> dict:
    """Run a step; its output goes to a log."""
    start = time.perf_counter()
    try:
        ended = subprocess.run(
            [sys.executable, *step.command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "120", "PYTHONUNBUFFERED": "1"},
        )
        text, code = ended.stdout, ended.returncode
    except subprocess.TimeoutExpired as error:
        said = error.stdout or b""
        text = said.decode(errors="replace") if isinstance(said, bytes) else said
        text, code = f"{text}\nstopped after {SECONDS} s", -1
    (folder / f"{step.name}.txt").write_text(text, encoding="utf-8")
    return {"step": step.name, "code": code, "seconds": round(time.perf_counter() - start, 1)}


def pack(folder: Path, target: Path) -> None:
    """All files of the folder as one, texts without private names."""
    with atomic_write(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            text = anonymous(path.read_text(encoding="utf-8", errors="replace"))
            archive.writestr(f"mlpot-report/{path.relative_to(folder).as_posix()}", text)


def main(arguments: list[str] | None = None) -> int:
    """Run all steps and write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--anyway", action="store_true", help="report on a machine that is no Mac")
    parser.add_argument("--quick", action="store_true", help="a few checks of each kind")
    parser.add_argument("--out", type=Path, default=Path("mlpot-report.zip"), help="the file")
    options = parser.parse_args(arguments)
    if sys.platform != "darwin" and not options.anyway:
        print(
            f"error: this is no Mac ({platform.system()}), and a Mac's kernels are what the report "
            "is about; --anyway reports on this machine",
            file=sys.stderr,
        )
        return 2
    if not options.out.parent.is_dir():
        parser.error(f"--out {options.out}: folder {options.out.parent} does not exist")
    import mlx.core as mx

    gpu = mx.is_available(mx.gpu)
    rows = []
    with tempfile.TemporaryDirectory(prefix="mlpot-report-") as name:
        folder = Path(name)
        for step in steps(folder, options.quick, gpu):
            if step.needs_gpu and not gpu:
                rows.append({"step": step.name, "code": None, "seconds": 0.0})
            else:
                print(f"{step.name} ...", flush=True)
                rows.append(run(step, folder))
            state = {None: "left out: MLX finds no GPU here", 0: "all right"}
            said = state.get(rows[-1]["code"], "SOMETHING IS WRONG")
            print(f"{step.name}: {said}, {rows[-1]['seconds']:.0f} s", flush=True)
        (folder / "summary.json").write_text(
            json.dumps({"machine": platform.machine(), "gpu": gpu, "steps": rows}, indent=1)
        )
        pack(folder, options.out)
    print(f"\n{options.out} is the file to send back.")
    return 1 if any(row["code"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
