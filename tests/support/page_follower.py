"""Follows a page of the documentation from its first block to its last, as a reader would.

    python tests/support/page_follower.py docs/howto/train.md FOLDER

Files named by the page lie in the folder (`page_files`). Python blocks run in one namespace,
commands one after another, configurations are used: by the command that names them, else at once.
Sizes are reduced (`SMALLER` and `page_files`), nothing else is changed. What cannot run everywhere
is left out by `left_out`, which says why and checks what can be checked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from unittest import mock

import page_files
import yaml
from documentation import ROOT, Block, blocks
from left_out import left_out

#: Sizes in commands and in Python, and those taken instead.
SMALLER = (
    (r"cubic=True\) \* \(3, 3, 3\)", "cubic=True) * (2, 2, 2)"),
    (r"--steps \d+", "--steps 20"),
    (r"(phonons.*) --supercell \d \d \d", r"\1 --supercell 2 2 2"),
    # Third derivatives cancel by symmetry in 2 x 2 x 2 primitive cells of copper.
    (r"(anharmonic.*) --supercell 2 2 2", r"\1 --supercell 3 3 3"),
    (r"--mesh \d+ \d+ \d+", "--mesh 3 3 3"),
    (r"--images 7", "--images 7 --fmax 0.05"),
    (r"(mlpot md (?!.*--steps).*--ensemble \S+)", r"\1 --steps 20"),
    # This machine in place of two Macs.
    (r"/path/to/venv/bin/mlpot", "$(which mlpot)"),
    (r"--architecture sm_90a", "--architecture sm_90a --atoms 4"),
)
_SHELL = ("bash", "console", "sh", "indented")


def say(text: str) -> None:
    """A line of the log."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def commands(block: Block) -> list[str]:
    """The commands of a block, each on one line, without comments and prompts."""
    joined = re.sub(r"\\\n\s*", "", block.code)
    lines = (line.strip().removeprefix("$ ") for line in joined.splitlines())
    return [line for line in (re.sub(r"(^|\s+)#.*$", "", line) for line in lines) if line]


def smaller(command: str) -> str:
    """The command with reduced sizes."""
    for pattern, instead in SMALLER:
        command = re.sub(pattern, instead, command)
    return command


@dataclass
class Reader:
    """Somebody who does what the page says, in the present folder.

    Args:
        page: from the root of the repository.
        names: of the page's Python.
    """

    page: str
    names: dict = field(default_factory=lambda: {"__name__": "__main__"})

    def follow(self) -> None:
        """Every block of the page."""
        found = [block for block in blocks(indented=True) if block.file == self.page]
        for place, block in enumerate(found):
            start = time.perf_counter()
            say(f"\n== {block.file}:{block.line} {block.language}")
            page_files.put_published(Path.cwd())
            if block.language == "python":
                self._python(block)
            elif block.language == "yaml":
                later = "".join(one.code for one in found[place:] if one.language in _SHELL)
                self._configuration(block, later)
            elif block.language == "text":
                say(block.code)  # an equation
            elif block.language == "json":
                self._hosts(block)
            elif block.language in _SHELL and block.code.startswith("#!"):
                say(block.code)
                self._run(block.code, block)
            elif block.language in _SHELL:
                for command in commands(block):
                    began = time.process_time()
                    self._command(command, block)
                    say(f"[{time.process_time() - began:.1f} s of CPU time]")
            else:
                raise AssertionError(f"{block.file}:{block.line}: what is {block.language!r}?")
            say(f"-- {time.perf_counter() - start:.1f} s")

    def _python(self, block: Block) -> None:
        code = block.code
        if code.startswith(">>>"):
            lines = code.splitlines()
            code = "\n".join(line[4:] for line in lines if line.startswith((">>>", "...")))
        code = smaller(code)
        # Empty lines before it, so that a traceback names the line of the page.
        program = compile("\n" * (block.line - 1) + code, block.file, "exec")
        with mock.patch.dict(sys.modules, stand_ins(self.page)):
            exec(program, self.names)

    def _configuration(self, block: Block, later: str) -> None:
        """Written to the file that its first line names; used if no command does so."""
        keys = yaml.safe_load(block.code)
        kind = block.mark.removeprefix("config:")
        assert kind in ("train", "md"), f"{block.file}:{block.line}: config: train or md?"
        named = re.match(r"# (\S+\.yaml)", block.code)
        name = named[1] if named else f"line{block.line}.yaml"
        small = (
            page_files.smaller_training(keys) if kind == "train" else page_files.smaller_md(keys)
        )
        Path(name).write_text(yaml.safe_dump(small))
        if name not in later:
            options = ["--out", f"runs/line{block.line}"] if kind == "train" else []
            mlpot(kind, name, *options)

    def _hosts(self, block: Block) -> None:
        """Hosts of a page, whose places this machine takes."""
        hosts = json.loads(block.code)
        assert all(set(host) == {"ssh", "ips"} for host in hosts)
        here = [{"ssh": "127.0.0.1", "ips": ["127.0.0.1"]} for _ in hosts]
        Path("hosts.json").write_text(json.dumps(here))

    def _command(self, command: str, block: Block) -> None:
        entry = left_out(self.page, command)
        if entry is not None:
            say(f"left out: {command}\n  {entry.reason}")
            entry.check(command)
            return
        short = smaller(command)
        say(f"$ {short}")
        if short.startswith("mlpot "):
            words = shlex.split(short)[1:]
            make_room(words)
            if words[:2] == ["md", "--resume"]:
                as_if_stopped(Path(words[2]))
            mlpot(*words)
            if words[0] == "train":
                page_files.after_training(self.page)
            return
        # mlx.launch ends with exit code 0 whatever its processes do.
        trained = re.search(r"mlx\.launch .*mlpot\)? train (\S+)\.yaml", short)
        report = Path(f"runs/{trained[1]}/report.html") if trained else None
        if report is not None:
            shutil.rmtree(report.parent, ignore_errors=True)
        self._run(short, block)
        assert report is None or report.is_file(), f"{block.file}:{block.line}: nothing was trained"

    def _run(self, command: str, block: Block) -> None:
        """A command, or a script, in a shell of its own."""
        # Ports of its own, as other tests may train in several processes too.
        port = 40_000 + os.getpid() % 10_000
        command = command.replace("mlx.launch ", f"mlx.launch --starting-port {port} ")
        paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        cluster = {"SLURM_CPUS_PER_TASK": "1", "SCRATCH": str(Path.cwd())}
        environment = os.environ | cluster | {"PATH": paths}
        ended = subprocess.run(["bash", "-c", command], env=environment)
        assert ended.returncode == 0, f"{block.file}:{block.line}: exit code {ended.returncode}"


def make_room(words: list[str]) -> None:
    """Take away a file of the folder that the command makes, as it would not replace it."""
    made = [after for before, after in pairwise(words) if before == "--out"]
    if words[0] == "convert":
        made += [word for word in words if word.endswith((".h5", ".safetensors"))][-1:]
    for name in made:
        if Path(name).is_file():
            Path(name).unlink()


def as_if_stopped(run: Path) -> None:
    """Let a finished run of dynamics want another stage."""
    config = json.loads((run / "config.json").read_text())
    config["stages"].append(config["stages"][-1])
    (run / "config.json").write_text(json.dumps(config))


def mlpot(*words: str) -> None:
    """The command line of mlpot, in this process."""
    from mlpot.cli.app import main

    code = None
    try:
        main(list(words))
    except SystemExit as ended:
        code = ended.code
    assert not code, f"mlpot {shlex.join(words)}: exit code {code}"


def stand_ins(page: str) -> dict:
    """Modules that take the place of those that no test imports: torch, with a deployed model."""
    if page not in ("docs/howto/import.md", "models/README.md"):
        return {}
    from deployed_model import torch_with_a_deployed_model

    return {"torch": torch_with_a_deployed_model()}


if __name__ == "__main__":
    page, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    page_files.prepare(folder, page)
    os.chdir(folder)
    assert (ROOT / page).is_file(), page
    Reader(page).follow()
