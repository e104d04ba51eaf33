"""A worker process, as the parent sees it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

EVALS = Path(__file__).parent.parent


class WorkerFailedError(RuntimeError):
    """The process has ended, or answered too late, or answered with an error."""


class WorkerProcess:
    """``python -m benchmark.worker NAME`` under some Python.

    Args:
        python: the interpreter.
        name: the implementation.
        environment: variables added to this process's own.
    """

    def __init__(self, python: str, name: str, environment: Mapping[str, str]) -> None:
        self.name = name
        self.started = time.perf_counter()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        path = os.pathsep.join(
            [str(EVALS), str(EVALS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        self._process = subprocess.Popen(
            [python, "-m", "benchmark.worker", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **environment, "PYTHONPATH": path},
        )

    def hello(self, limit: float = 900.0) -> dict:
        """What the process says first; it may have to compile mlpot's native kernels before."""
        return self._answer(limit)

    def ask(self, request: dict, limit: float = 600.0) -> dict:
        """The answer to a request.

        Args:
            request: as JSON.
            limit: seconds after which the process is ended.

        Raises:
            WorkerFailedError: no answer, or one with an error.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise WorkerFailedError(self._death()) from error
        return self._answer(limit)

    def _answer(self, limit: float) -> dict:
        pipe = self._process.stdout
        assert pipe is not None
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            if not selector.select(limit):
                self.end()
                raise WorkerFailedError(f"no answer within {limit:.0f} s")
        line = pipe.readline()
        if not line:
            raise WorkerFailedError(self._death())
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerFailedError(reply["error"])
        return reply

    def _death(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"ended with code {code}: {lines[-1][:300] if lines else 'no message'}"

    def end(self) -> None:
        """End the process if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            # A request that was never read cannot be flushed.
            with contextlib.suppress(OSError):
                stream.close()
