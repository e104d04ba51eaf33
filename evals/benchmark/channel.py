"""The worker's side of the pipe: one JSON line asks, one answers; nothing else may print there."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, TextIO


def take_stdout() -> TextIO:
    """The pipe to the parent; whatever any library prints from now on goes to stderr."""
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return pipe


def serve(pipe: TextIO, hello: dict, answer: Callable[[dict], dict[str, Any]]) -> None:
    """Say hello, then answer requests until stdin ends."""
    print(json.dumps(hello), file=pipe, flush=True)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:
            said = (str(error).strip().splitlines() or [""])[-1][:300]
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {said}"}
        print(json.dumps(reply), file=pipe, flush=True)
