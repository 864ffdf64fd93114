"""Results in a notebook: the HTML of each fits a cell of a page and of a telephone, and escapes what users name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chromium
import truecal as tc

SHORT: dict[str, Any] = {"n_resamples": 99, "errors": ["classwise", "confidence", "confidence_l1"]}


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 120)
    y = np.array([rng.choice(4, p=row) for row in p])
    sharp = p**3 / (p**3).sum(axis=1, keepdims=True)
    by = np.array(["<b>north", "south"])[np.arange(120) % 2]
    one = tc.evaluate(y, sharp, by=by, name="<script>net", **SHORT).with_notes(["a note that goes on " * 8])
    both = tc.compare(y, {"a network with a name that is rather long": p, "<i>sharp": sharp}, **SHORT)
    some = [tc.gap(y, sharp), tc.confidence_interval(y, sharp), tc.calibration_test(y, sharp, n_resamples=99)]
    some += [tc.paired_difference(y, p, sharp), tc.decompose(y, p), tc.analysis.mean_gap(y, sharp), both.dominance]
    return [one, both, *some]


@pytest.mark.slow
def test_names_are_escaped_and_subgroups_shown(results):
    one, both, *_ = (result._repr_html_() for result in results)
    assert "&lt;script&gt;net" in one and "&lt;b&gt;north" in one and "&lt;i&gt;sharp" in both
    for html in (one, both):
        assert "<script>" not in html and "<b>" not in html and "<i>" not in html
        assert html.count("<tr>") == html.count("</tr>") and html.count("<td") == html.count("</td>")
    assert one.count("<thead>") == 1 and "<td" in one.partition("south")[2]


def test_nothing_in_a_name_is_hidden():
    """As in the report: direction overrides and controls are shown as what they are, in every cell."""
    name = "a\u202eb\x1b[31m\x00<b>\nc"
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 60)
    y = rng.integers(0, 3, 60)
    one = tc.evaluate(
        y, p, name=name, by=np.array([name, "d"])[np.arange(60) % 2], n_resamples=19, errors=["confidence"]
    )
    both = tc.compare(y, {name: p, "d": p[::-1]}, n_resamples=19, errors=["confidence"])
    paired = tc.paired_difference(y, p, p[::-1], names=(name, "d"))
    for html in (one._repr_html_(), both._repr_html_(), paired._repr_html_()):
        assert not {"\u202e", "\x1b", "\x00"} & set(html) and "<b>" not in html and "&lt;b&gt;" in html


@pytest.mark.heavy
@pytest.mark.skipif(chromium.browser_path() is None, reason="needs a Chromium")
def test_cells_are_no_wider_than_the_page(results, tmp_path):
    page = tmp_path / "cells.html"
    cells = "".join(
        f"<div>{result._repr_html_()}</div>" for result in (*results, tc.audit(tc.ERRORS["binary_l1"], budget=500))
    )
    look = "td, th { padding: .5em; font: 13px sans-serif } pre { font: 13px monospace }"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{look}</style>'
    page.write_text(f"<!doctype html><html data-ready=yes>{head}{cells}")
    with chromium.launch() as browser:
        for width in (800, 390):
            browser.open(page, width=width)
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert browser.run("document.querySelectorAll('table').length") >= 4
