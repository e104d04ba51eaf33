"""A process that answers one JSON line with another; it is started again if it dies."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path


class WorkerDiedError(RuntimeError):
    """The process has ended instead of answering."""


class Worker:
    """A script that runs under some Python and tells its versions first."""

    def __init__(self, python: str, script: Path) -> None:
        self._command = [python, str(script)]
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        first = self._process.stdout.readline()
        if not first:
            raise WorkerDiedError(f"{' '.join(self._command)} does not start")
        self.versions = json.loads(first)

    def ask(self, request: dict) -> dict:
        """The answer to a request.

        Raises:
            WorkerDiedError: the process has ended; a new one waits for the next request.
        """
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            code = self._process.wait()
            self._start()
            raise WorkerDiedError(f"the process of {self._command[1]} ended with code {code}")
        return json.loads(answer)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
