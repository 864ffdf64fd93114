"""The page of claims: its numbers come from the stored rates, which are as good as asked, and all files are listed."""

from __future__ import annotations

import csv
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

claims: Any = importlib.import_module("benchmarks.claims")
ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def test_the_table_of_the_page_is_that_of_the_stored_rates() -> None:
    text = claims.PAGE.read_text()
    assert claims.page(text) == text and len(claims.CLAIMS) >= 15


def test_the_page_can_be_read() -> None:
    prose = re.sub(r"\]\([^)]*\)", "]", FENCE.sub("", claims.PAGE.read_text()))
    assert len(re.findall(r"\w[^\s|]*", prose)) <= 1500


@pytest.mark.parametrize("claim", claims.CLAIMS, ids=lambda claim: claim.said)
def test_rates_are_as_good_as_was_asked(claim: Any) -> None:
    """Within two standard errors of the samples of a row; a level without a sign is met on average."""
    rates, samples = claim.of(claim.column, claim.rows), claim.of("samples", claim.rows)
    assert len(rates) == len(samples) > 0
    sign, _, text = claim.asked.rpartition(" ")
    bound = float(text)
    if bound >= 0.9 and not sign:
        assert sum(rates) / len(rates) >= bound - 0.01 and min(rates) >= bound - 0.06
        return
    for rate, number in zip(rates, samples, strict=True):
        noise = 2 * (bound * (1 - bound) / number) ** 0.5
        assert rate >= bound - noise if sign == "≥" else rate <= bound + noise


def test_every_file_is_listed_and_tells_how_many_samples_it_has() -> None:
    text = (claims.FOLDER / "RESULTS.md").read_text()
    for path in claims.FOLDER.glob("*.csv"):
        assert f"]({path.name})" in text
        with open(path, newline="") as file:
            heads = next(csv.reader(file))
        assert path.stem == "number-of-bins" or any(head.startswith("samples") for head in heads)
