"""Commands of mlpot as words that are parsed and not run."""

from __future__ import annotations

import typer

from mlpot.cli.app import app

GROUP = typer.main.get_command(app)


def _verbs():
    context = GROUP.make_context("mlpot", [], resilient_parsing=True)
    return {name: GROUP.get_command(context, name) for name in GROUP.list_commands(context)}


VERBS = _verbs()


def parse(words: list[str]) -> None:
    """Read the words as the program does, without running anything."""
    if words[0].startswith("-"):
        assert words[0] in {option for one in GROUP.params for option in one.opts} | {"--help"}
        return
    assert words[0] in VERBS, f"{words[0]} is no verb"
    if {"--help", "-h", "--schema"} & set(words):
        return  # asks to print, so arguments may be missing
    VERBS[words[0]].make_context(words[0], [w for w in words[1:] if w != "--debug"])
