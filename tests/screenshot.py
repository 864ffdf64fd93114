"""The picture of the README: python tests/screenshot.py demo/report.html docs/report.png, after make demo."""

from __future__ import annotations

import sys
from pathlib import Path

import chromium

WIDTH, HEIGHT = 1280, 1150


def main(page: str, picture: str) -> None:
    """Photograph the first screen of a report, with the diagrams of its best models."""
    with chromium.launch() as browser:
        browser.open(Path(page), width=WIDTH, height=HEIGHT)
        browser.screenshot(Path(picture), whole=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
