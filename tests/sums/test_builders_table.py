"""The table of docs/how-it-works.md, rule by property by builder, is what works when it is called."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "site" / "builders.py"


@pytest.mark.heavy
def test_the_table_is_what_works():
    pytest.importorskip("torch")
    pytest.importorskip("ibis")
    made = runpy.run_path(str(SCRIPT))
    assert made["page"]() == made["PAGE"].read_text("utf-8"), "run python docs/site/builders.py"
