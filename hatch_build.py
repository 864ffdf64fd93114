"""Refuse an older Python before pip resolves anything: it reads `requires-python` only after it has begun to search."""

from __future__ import annotations

import sys

from hatchling.metadata.plugin.interface import MetadataHookInterface


class PythonIsNewEnough(MetadataHookInterface):
    def update(self, metadata: dict[str, object]) -> None:
        if sys.version_info < (3, 11):  # noqa: UP036  # pip runs this with the Python that it installs for
            raise SystemExit(f"truecal needs Python 3.11 or newer, this is {sys.version.split()[0]}")
