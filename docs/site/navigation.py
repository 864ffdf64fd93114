"""The navigation: docs/index.md is a list of links under headings, and that list is the sidebar of the site."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

INDEX = "docs/index"
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
LINK = re.compile(r"^- \[([^\]]+)\]\(([^)#]+)\)", re.MULTILINE)
REFERENCE, MADE = "Reference", ("API reference", "docs/api/index")  # made when the site is built, so no link on GitHub


def groups(text: str) -> dict[str, list[tuple[str, str]]]:
    """Heading -> (words of the link, page without its suffix, from the root)."""
    _, *parts = HEADING.split(text)
    found = {
        heading: [(words, page_name(target)) for words, target in LINK.findall(part)]
        for heading, part in zip(parts[::2], parts[1::2], strict=True)
    }
    found.setdefault(REFERENCE, []).append(MADE)
    return {heading: pages for heading, pages in found.items() if pages}


def page_name(target: str) -> str:
    """The page that a link of docs/index.md leads to, from the root of the repository, without its suffix."""
    path = PurePosixPath("docs", target).with_suffix("")
    return str(PurePosixPath(*path.parts[2:]) if path.parts[1] == ".." else path)


def add_toctrees(app: Sphinx, page: str, source: list[str]) -> None:
    """Write the list of links once more, as the directives that Sphinx makes its sidebar from."""
    if page != INDEX:
        return
    for heading, pages in groups(source[0]).items():
        entries = "\n".join(f"{words} </{name}>" if words else f"/{name}" for words, name in pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{entries}\n```\n"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", add_toctrees)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
