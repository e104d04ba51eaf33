"""Code blocks, commands and links of the documentation, for the tests that check them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = ("calculators", "datasets", "md", "models", "tutorials")
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.M | re.S
)
_MARK = re.compile(r"<!-- (?P<kind>config): (?P<name>[\w-]+) -->\s*\Z")
_INDENTED = re.compile(r"^\n((?: {4}(?:mlpot|python|pip|>>>|bash|\./) ?.*\n)+)", re.M)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SCRIPT = re.compile(r"(?<!`)`((?:python \w+/|\./scripts/)[^`\n]+)`")
_INLINE = re.compile(r"(?<!`)`(mlpot [a-z]+(?: [^`\n]*)?)`")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Args:
        file: where it stands, from the root of the repository.
        line: of its first line.
        language: after the fence; "indented" for commands that are indented instead.
        code: without its indentation.
        mark: what the comment before it says: "config:NAME" or empty.
    """

    file: str
    line: int
    language: str
    code: str
    mark: str


def files() -> list[Path]:
    """Every page that users read."""
    further = ["README.md", "CONTRIBUTING.md", *(f"{name}/README.md" for name in _FOLDERS)]
    return [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in further)]


def blocks(indented: bool = False) -> list[Block]:
    """All fenced blocks; with commands and Python that are indented instead, if wanted."""
    found = []
    for path in files():
        text = path.read_text()
        if indented:
            found += _indented(path, text)
        for match in _FENCE.finditer(text):
            indent = len(match["indent"])
            lines = [line[indent:] for line in match["code"].splitlines()]
            mark = _MARK.search(text[: match.start()])
            found.append(
                Block(
                    path.relative_to(ROOT).as_posix(),
                    text.count("\n", 0, match.start()) + 2,
                    match["language"],
                    "\n".join(lines) + "\n",
                    f"{mark['kind']}:{mark['name']}" if mark else "",
                )
            )
    return sorted(found, key=lambda block: (block.file, block.line)) if indented else found


def _indented(path: Path, text: str) -> Iterator[Block]:
    """Commands and Python that are indented by four spaces, outside of fences."""
    plain = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in _INDENTED.finditer(plain):
        code = "".join(line[4:] for line in match[1].splitlines(keepends=True))
        language = "python" if code.startswith(">>>") else "indented"
        line = plain.count("\n", 0, match.start()) + 2
        yield Block(path.relative_to(ROOT).as_posix(), line, language, code, "")


def commands() -> list[tuple[str, list[str]]]:
    """Each mlpot command that stands on lines of its own, as (file, words after mlpot)."""
    found = []
    for path in files():
        text = re.sub(r"\\\n\s*", "", path.read_text())
        shown = [line.strip() for line in text.splitlines() if line.startswith("    mlpot ")]
        for match in _FENCE.finditer(text):
            if match["language"] in ("bash", "console", "sh", ""):
                lines = (line.strip().removeprefix("$ ") for line in match["code"].splitlines())
                shown += [line for line in lines if line.startswith("mlpot ")]
        name = path.relative_to(ROOT).as_posix()
        found += [(name, shlex.split(line, comments=True)[1:]) for line in dict.fromkeys(shown)]
    return found


def mentions() -> list[tuple[str, list[str]]]:
    """Each mlpot command within a sentence, as (file, words after mlpot); it may lack arguments."""
    found = []
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        for text in dict.fromkeys(_INLINE.findall(path.read_text())):
            found.append((name, text.split()[1:]))
    return found


def scripts() -> list[tuple[str, str]]:
    """Each script of the repository within a sentence, as (file, command)."""
    found = []
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        for text in dict.fromkeys(_SCRIPT.findall(path.read_text())):
            found.append((name, text.split(" |")[0]))
    return found


def links() -> list[tuple[str, str]]:
    """Each relative link outside of code, as (file, target without anchor)."""
    found = []
    for path in files():
        text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", path.read_text()))
        for target in _LINK.findall(text):
            target = target.partition("#")[0]
            if target and "://" not in target and not target.startswith("mailto:"):
                found.append((path.relative_to(ROOT).as_posix(), target))
    return found
