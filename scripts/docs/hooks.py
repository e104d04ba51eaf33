"""What mkdocs is told beyond `mkdocs.yml`: generated pages, and links that leave docs/."""

from __future__ import annotations

import posixpath
import re

import pages
from mkdocs.structure.files import File, Files
from pages import ROOT

LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def on_config(config):
    """Add the pages that are made here, and those from outside docs/, to the navigation."""
    tutorials = [{_label(page): page} for page in pages.tutorials()]
    config.nav.insert(1, {"Tutorials": [{"Overview": "tutorials.md"}, *tutorials]})
    config.nav.append(
        {"Reference": [*pages.NAVIGATION, "models.md", "datasets.md", "calculators.md", "md.md"]}
    )
    config.nav.append({"Project": ["contributing.md", "changelog.md"]})
    known = {"index.md", *pages.OUTSIDE.values(), *pages.names()}
    further = sorted(_unlisted(config.nav, known))
    if further:
        config.nav.append({"Further": further})
    return config


def _label(page: str) -> str:
    """What the navigation calls a tutorial: its file's name in words."""
    words = page.rpartition("/")[2].removesuffix(".md").replace("_", " ")
    return words.capitalize().replace("Md and rdf", "MD and RDF")


def _unlisted(nav: list, known: set[str]) -> set[str]:
    """Pages in docs/ that mkdocs.yml does not name."""
    listed = set(re.findall(r"[\w./-]+\.md", str(nav)))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    return there - listed - known


def on_files(files: Files, *, config) -> Files:
    """Add generated pages, pages from outside docs/ and files that pages link to."""
    for name, text in pages.make().items():
        files.append(File.generated(config, name, content=text))
    for source, name in pages.OUTSIDE.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    for file in list(files.documentation_pages()):
        for _, target, _ in LINK.findall(file.content_string):
            path = _repository_path(target, file.src_uri)
            if path is not None and _within_site(path) is None and (ROOT / path).is_file():
                name = f"repository/{path}"
                if files.get_file_from_path(name) is None:
                    files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page, config, files) -> str:
    """Lead links to where their targets are in the site."""
    uri = page.file.src_uri
    if "{parity}" in markdown:
        table = pages.parity_table(ROOT / "evals/results/parity-0.json")
        markdown = markdown.replace("{parity}", table)

    def lead(match: re.Match) -> str:
        path = _repository_path(match[2], uri)
        if path is None:
            return match[0]
        anchor = match[2].partition("#")[2]
        inside = _within_site(path) or f"repository/{path}"
        relative = posixpath.relpath(inside, posixpath.dirname(uri) or ".")
        return f"{match[1]}{relative}{'#' + anchor if anchor else ''}{match[3]}"

    return LINK.sub(lead, markdown)


def _repository_path(target: str, uri: str) -> str | None:
    """Path of a link's target from the root of the repository; None for other links."""
    path = target.partition("#")[0]
    if not path or "://" in target or target.startswith("mailto:"):
        return None
    sources = {name: source for source, name in pages.OUTSIDE.items()}
    folder = posixpath.dirname(sources.get(uri, f"docs/{uri}"))
    return posixpath.normpath(posixpath.join(folder, path))


def _within_site(path: str) -> str | None:
    """Where a file of the repository is in the site as a page or a file of docs/."""
    if path in pages.OUTSIDE:
        return pages.OUTSIDE[path]
    if path == "README.md":
        return "index.md"
    return path.removeprefix("docs/") if path.startswith("docs/") else None
