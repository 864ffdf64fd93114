"""Adds released versions to a built site: python docs/site/versions.py build/docs v0.2.0 v0.1.0.

The newest version is the site itself; each tag is built from its own files into a folder beside it. Every one of them
gets `versions.js`, the list that static/switch.js offers in the sidebar.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import truecal


def build(tag: str, folder: Path) -> None:
    """Build the site of a tag."""
    with tempfile.TemporaryDirectory() as parent:
        tree = Path(parent, "tree")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, tag], check=True)
        try:
            sphinx = [sys.executable, "-m", "sphinx", "-q", "-c", tree / "docs" / "site", tree, folder.resolve()]
            subprocess.run(sphinx, check=True, env={**os.environ, "PYTHONPATH": str(tree / "src")})
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], check=True)


def write_lists(site: Path, newest: str, others: list[str]) -> None:
    """Write the list of versions into the site and into the folder of each other version, with paths from there."""
    for here in ("", *others):
        up = "../" if here else ""
        entries = [{"name": newest, "path": up, "here": not here}]
        entries += [{"name": name, "path": f"{up}{name}/", "here": name == here} for name in others]
        (site / here / "versions.js").write_text(f"window.VERSIONS = {json.dumps(entries)};\n", "utf-8")


def main(site: Path, tags: list[str]) -> None:
    """Build the sites of the tags and list them."""
    for tag in tags:
        build(tag, site / tag.removeprefix("v"))
    write_lists(site, truecal.__version__, [tag.removeprefix("v") for tag in tags])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
