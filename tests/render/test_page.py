"""The report as a text: everything in it comes from the result, nothing from outside is markup, nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import report_cases as cases
import truecal as tc
from truecal.core.result import clean
from truecal.core.words import points_text
from truecal.inference.gaps import gap_interval
from truecal.io import FileError
from truecal.kinds import TopPredictions
from truecal.kinds.named_errors import COMPOSED
from truecal.render.report.content import MOST_POINTS, SCALE
from truecal.render.report.measures import measure
from truecal.render.report.text import distinct, interval, script_json, shorten
from truecal.report import render_report, write_report
from truecal.results.comparison import rank_text

pytestmark = pytest.mark.slow

MEGABYTE = 1_000_000


class Page(HTMLParser):
    """Elements with their attributes, text outside of scripts, and the content of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._open: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._open = tag
            if tag == "script":
                self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        if tag == self._open:
            self._open = None

    def handle_data(self, data):
        if self._open == "script":
            attrs, text = self.scripts[-1]
            self.scripts[-1] = (attrs, text + data)
        elif self._open is None:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))

    @property
    def data(self):
        return json.loads(next(text for attrs, text in self.scripts if attrs.get("id") == "data"))

    @property
    def policy(self) -> str:
        found = next(a for tag, a in self.elements if a.get("http-equiv") == "Content-Security-Policy")
        return found["content"] or ""


@pytest.fixture(scope="module")
def page():
    return Page(render_report(cases.flipping(), title="Five models"))


@pytest.fixture(scope="module")
def hostile():
    return Page(render_report(cases.hostile(), title=cases.HOSTILE[1], classes=cases.HOSTILE[:5]))


def test_opens_with_the_verdict_then_the_leaderboard_what_to_do_and_who_is_calibrated(page):
    verdict = cases.flipping().verdict
    parts = (verdict.predictive, verdict.ece, "lowest Brier first", "What should I do now?", "Who is calibrated?")
    places = [page.text.index(words) for words in (*parts, "bin by bin", "Details")]
    assert places == sorted(places)
    assert [tag for tag, a in page.elements if a.get("class") == "verdict"] == ["p"]
    assert "The story." in Page(render_report(cases.flipping(), intro="The story.")).text.split("lowest Brier")[0]


def test_gaps_are_drawn_largest_first_with_their_numbers(page):
    found = cases.flipping().evaluations.values()
    gaps = sorted((one.gap for one in found if one.gap is not None), key=lambda gap: -gap.points)
    said = [a["aria-label"] for tag, a in page.elements if tag == "svg" and "aria-label" in a]
    assert said == [f"gap {points_text(gap.points)} {gap_interval(gap)}".strip() + " points" for gap in gaps]


def test_one_model_opens_with_a_sentence_that_names_it():
    page = Page(render_report(tc.evaluate([0, 1] * 400, [0.4, 0.6] * 400, name="lucky", n_resamples=99)))
    assert "lucky is not calibrated: about right on average, but too moderate" in page.text


def test_what_needs_explaining_is_folded(page):
    """Symbols of the paper, loss + U, the theorem, dominance and flips stand in a details element that is closed."""
    folded = page.text.index("loss + U, the theorem, dominance, flips")
    before, after = page.text[:folded], page.text[folded:]
    for words in ("ConfCE", "LinCE", "loss + U", "theorem", "dominates", "flip"):
        assert words not in before, words
        assert words in after, words
    assert not any("open" in attrs for tag, attrs in page.elements if tag == "details")


def test_the_leaderboard_is_that_of_the_comparison(page):
    comparison = cases.flipping()
    text = render_report(comparison)
    board = comparison.leaderboard()
    assert cells(text, "ECE") == [f"{row['ece']:.4f}" for row in board]
    assert cells(text, "rank") == [rank_text(row) for row in board]
    assert cells(text, "accuracy") == [f"{row['accuracy']:.1%}" for row in board]
    assert [comparison.names[i] for i in page.data["board"]] == [row["model"] for row in board]
    assert not cells(text, "p")  # nine draws are no test
    columns = (cells(text, title) for title in ("gap", "interval", "calibrated?"))
    for row, gap, ends, said in zip(board, *columns, strict=True):
        found = comparison.evaluations[row["model"]].gap
        assert found is not None and (gap, ends) == (points_text(found.points), gap_interval(found))
        standing = comparison.verdict.standings[row["model"]]
        assert standing.answer in said


def test_rankings_are_those_of_the_comparison(page):
    comparison = cases.flipping()
    for ranking in comparison.rankings:
        found = page.data["ways"][ranking.error + ("" if ranking.by == "value" else f" {ranking.by}")]
        k = found["counts"].index(ranking.n_bins)
        assert [comparison.names[i] for i in found["order"][k]] == list(ranking.order)
        assert found["ranks"][k] == list(ranking.ranks)
        assert found["values"][k] == pytest.approx(comparison.values(ranking.error, ranking.by)[0][k], rel=1e-4)
        assert found["truthful"] == ranking.truthful


def test_parts_and_intervals_are_those_of_the_evaluations(page):
    comparison = cases.flipping()
    assert set(page.data["parts"]) == {name for name in comparison.error_names if tc.ERRORS[name].norm == "l2"}
    for name, found in page.data["parts"].items():
        for i, model in enumerate(comparison.names):
            for k, row in enumerate(comparison.evaluations[model].rows(name)):
                for key in ("loss", "U", "U_low", "U_high", "gap", "gap_low", "gap_high"):
                    value = getattr(row, key)
                    assert found[key][k][i] == (None if value is None else pytest.approx(value, rel=1e-4))


def test_diagrams_are_those_of_the_evaluations(page):
    comparison = cases.flipping()
    for name, found in page.data["reliability"].items():
        for i, model in enumerate(comparison.names):
            table = comparison.evaluations[model].reliability[name]
            for j, (x, y, low, high, count) in zip(found["views"], found["models"][i], strict=True):
                full = table.count[j] > 0
                for stored, true in (
                    (x, table.mean_report),
                    (y, table.mean_outcome),
                    (low, table.low),
                    (high, table.high),
                ):
                    assert true is not None
                    assert np.asarray(stored) / SCALE == pytest.approx(true[j][full], abs=0.51 / SCALE)
                assert sum(count) == comparison.n_samples


def test_every_flip_is_listed(page):
    assert len(cases.flipping().flips) > 0
    assert f"Every flip: {len(cases.flipping().flips)} pairs" in page.text


def cells(found, label):
    """The texts of the cells with this label, in order."""
    rows = re.findall(rf'<td[^>]*data-label="{re.escape(label)}"[^>]*>(.*?)</td>', found, re.S)
    return [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", row)).strip() for row in rows]


def test_loss_differences_are_those_of_the_verdict():
    """Marks and intervals are the joint ones of the sentence: those of a single pair would contradict it."""
    comparison = cases.flipping()
    verdict, text = comparison.verdict, render_report(comparison)
    order = [row["model"] for row in comparison.leaderboard()]
    for name, cell in zip(order, cells(text, "Brier behind the best"), strict=True):
        assert ("cannot tell" in cell) == (name in verdict.best[1:])
        gap = verdict.behind.get(name)
        assert cell.startswith("best") if gap is None else interval(gap.low, gap.high) in cell
    for name, cell in zip(order, cells(text, "theorem applies?"), strict=True):
        best = verdict.best[0]
        assert cell == ("–" if name == best else comparison.same_order(best, name).condition)
    assert "joint for all 10 pairs" in Page(text).text


def test_what_is_not_rejected_is_no_pass():
    z = np.random.default_rng(0).normal(size=(300, 3))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > np.random.default_rng(1).random((300, 1))).argmax(axis=1)
    text = render_report(tc.evaluate(y, p, n_bins=(5, 20), errors=["classwise", "confidence"], n_resamples=99))
    assert text.count('<span class="badge">undecided</span>') == 1
    assert "✓ undecided" not in text
    few = render_report(tc.evaluate(y, p, n_bins=(5, 20), errors=["classwise"], n_resamples=9))
    assert cells(few, "calibrated?") == ["untested"]
    assert "Untested: no verdict" in Page(few).text


def test_one_bin_count_promises_no_control():
    y, p = [0, 1, 1, 0] * 10, [0.2, 0.9, 0.6, 0.1] * 10
    found = Page(render_report(tc.compare(y, {"a": p, "b": p}, n_bins=5, errors=["binary"], n_resamples=9)))
    assert "Only 5 bins were measured here" in found.text
    assert not any(attrs.get("id") == "bins" for _, attrs in found.elements)


def test_dominance_speaks_of_the_sample(page):
    assert "better on this sample" in page.text and "whatever one cares about" not in page.text


def test_added_notes_are_text():
    note = "a.npz: <img src=x onerror=alert(1)> read"
    for result in (cases.flipping(), cases.flipping().evaluations["honest"]):
        found = Page(render_report(result.with_notes([note])))
        assert note in found.text
        assert "img" not in {tag for tag, _ in found.elements}


def test_every_cell_of_a_table_that_folds_has_a_label(page):
    tables = [attrs for tag, attrs in page.elements if tag == "table"]
    assert tables and all(attrs.get("class") in ("fold", "lead") for attrs in tables)
    assert all(attrs.get("data-label") for tag, attrs in page.elements if tag == "td")


def test_the_chain_is_in_order(page):
    comparison = cases.flipping()
    assert [comparison.names[i] for i in page.data["chain"]] == list(comparison.dominance.chain_names)


@pytest.mark.parametrize("name", COMPOSED)
def test_every_error_is_explained(name):
    error, said = COMPOSED[name], measure(name)
    assert said.error is error and said.truthful == error.truthful
    formula = ElementTree.fromstring(said.formula)
    letters = "".join(formula.itertext())
    assert ("|" in letters or "‖" in letters) == (error.norm == "l1" or "full" in error.symbol)
    assert ("z¯" in letters) == (bool(error.corrected) and error.property.picks_outcome)
    assert ("∫" in letters) == (not error.binning.has_counts)
    assert said.asks.endswith((".", "?")) and said.bins.endswith(".")


def test_labels_tell_the_errors_of_one_page_apart():
    for kind in ("classwise", "binary", "top_label"):
        result = {
            "classwise": lambda: cases.flipping().evaluations["honest"],
            "binary": lambda: tc.evaluate([0, 1] * 10, [0.3, 0.6] * 10, n_resamples=9),
            "top_label": lambda: tc.evaluate(None, TopPredictions([True, False] * 10, [0.3, 0.6] * 10), n_resamples=9),
        }[kind]()
        labels = [measure(name).label for name in result.error_names]
        assert len(set(labels)) == len(labels)


def test_measured_errors_are_explained_on_the_page(page):
    articles = [a["id"] for tag, a in page.elements if tag == "article"]
    assert articles == [f"m-{name}" for name in cases.flipping().error_names]


@pytest.mark.parametrize("which", ["page", "hostile"])
def test_loads_nothing_and_runs_only_its_own_scripts(which, request):
    found = request.getfixturevalue(which)
    for tag, attrs in found.elements:
        assert tag not in ("img", "iframe", "object", "embed", "link", "base", "form", "audio", "video"), (tag, attrs)
        for key, value in attrs.items():
            assert not key.startswith("on"), (tag, key)
            if key in ("src", "href"):
                assert value.startswith("#")
    running = [text for attrs, text in found.scripts if attrs.get("type") is None]
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(t.encode()).digest()).decode()}'" for t in running}
    rules = dict(rule.split(" ", 1) for rule in found.policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert set(rules["script-src"].split()) == hashes and len(hashes) == 2


def test_names_are_text_and_stay_whole_in_the_data(hostile):
    shown = [model["name"] for model in hostile.data["models"]]
    assert shown == [shorten(clean(name), 240) for name in cases.HOSTILE]
    assert hostile.data["classes"] == [shorten(clean(name), 80) for name in cases.HOSTILE[:5]]
    for name in shown:
        assert re.sub(r"\s+", " ", name) in hostile.text
    assert "49" not in shown
    for attrs, text in hostile.scripts:
        if attrs.get("type") == "application/json":
            assert not set("<>&\u2028\u2029") & set(text)
    assert next(a for tag, a in hostile.elements if tag == "html") == {"lang": "en"}


def test_title_is_text(hostile):
    assert clean(cases.HOSTILE[1]) in hostile.text


def test_names_that_look_alike_are_told_apart():
    y, p = [0, 1] * 10, [0.3, 0.6] * 10
    result = tc.compare(y, {"a\x00": p, "a\x01": p, "b" * 300: p, "b" * 301: p}, n_bins=(2, 5), n_resamples=9)
    models = Page(render_report(result)).data["models"]
    for key in ("name", "label"):
        assert len({model[key] for model in models}) == 4


def test_models_are_drawn_apart_by_more_than_colour():
    y = [0, 1] * 10
    result = tc.compare(y, {f"m{i}": [0.3, 0.6] * 10 for i in range(30)}, n_bins=(2,), errors=["binary"], n_resamples=9)
    models = Page(render_report(result)).data["models"]
    assert len({(model["c"], model["s"]) for model in models}) == 30
    for a, b in ((a, b) for a in models for b in models if a is not b and a["c"] == b["c"]):
        assert a["s"] != b["s"]


@pytest.mark.heavy
def test_twenty_models_of_a_hundred_classes_stay_below_three_megabytes():
    rng = np.random.default_rng(0)
    n, k = 150, 100
    y = rng.integers(0, k, n)
    models = {f"a rather long name of a model, number {i:02d}.parquet": rng.dirichlet(np.ones(k), n) for i in range(20)}
    errors = ("classwise", "confidence", "confidence_l1")
    result = tc.compare(y, models, n_bins=(5,), errors=errors, n_resamples=2)
    text = render_report(result, classes=[f"class {j}" for j in range(k)])
    assert 1 * MEGABYTE < len(text.encode()) < 3 * MEGABYTE
    found = Page(text).data["reliability"]["classwise"]
    assert (len(found["views"]), found["left_out"]) == (k, 0)


def test_the_largest_diagrams_allowed_fit_as_well(monkeypatch):
    point = [SCALE - 1] * 4 + [10_000]
    assert MOST_POINTS * len(script_json(point)) < 2 * MEGABYTE  # beside Vega and the tables, which take one
    monkeypatch.setattr("truecal.render.report.content.MOST_POINTS", 5 * 15 * 2)
    comparison = cases.flipping()
    found = Page(render_report(comparison)).data["reliability"]["classwise"]
    assert (len(found["views"]), found["left_out"]) == (2, 4)
    table = comparison.evaluations[comparison.names[0]].reliability["classwise"]
    came = (table.count * table.mean_outcome).sum(axis=1)
    assert sorted(came[found["views"]]) == pytest.approx(sorted(came)[-2:])


def test_an_evaluation_has_a_page_of_its_own():
    y, p = [0, 1, 1, 0] * 10, [0.2, 0.9, 0.6, 0.1] * 10
    by = ["<i>left</i>", "right"] * 20
    found = Page(render_report(tc.evaluate(y, p, n_bins=(2, 5), n_resamples=19, by=by, name="<b>one")))
    assert "Calibration of <b>one" in found.text
    assert "<i>left</i>" in found.text
    for words in ("Leaderboard", "Flips", "Who dominates whom", "number of bins?"):
        assert words not in found.text
    assert found.data["ways"] == {} and "What should I do now?" in found.text


def test_top_class_only_and_absolute_errors_only():
    top = TopPredictions([True, False, True, True] * 10, [0.9, 0.6, 0.7, 0.8] * 10)
    found = Page(render_report(tc.compare(None, {"a": top, "b": top}, n_bins=(2, 5), n_resamples=9)))
    assert "top class only" in found.text and found.data["ece"] == "top_label_l1"
    y, p = [0, 1, 1, 0] * 10, [0.2, 0.9, 0.6, 0.1] * 10
    absolute = tc.compare(y, {"a": p, "b": p}, n_bins=(2, 5), errors=["binary_l1"], n_resamples=9)
    assert (
        "The two parts" not in Page(render_report(absolute)).text and "No truthful error" in absolute.verdict.predictive
    )


def test_infinite_losses_are_shown():
    y, p = [0, 1, 1, 0] * 10, [0.0, 1.0, 0.0, 0.5] * 10
    found = Page(render_report(tc.compare(y, {"a": p, "b": [0.5] * 40}, n_bins=(2, 5), n_resamples=9)))
    assert "∞" in found.text


def test_the_same_result_gives_the_same_page():
    assert render_report(cases.flipping()) == render_report(cases.flipping())


def test_other_things_are_refused():
    with pytest.raises(TypeError, match="needs a Comparison or an Evaluation, got dict"):
        render_report({})  # type: ignore[arg-type]  # what is being tested
    with pytest.raises(ValueError, match="must name all 6 classes, got 2"):
        render_report(cases.flipping(), classes=["a", "b"])


def test_a_failed_page_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr("truecal.render.report.build_page.script_json", lambda value: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(cases.flipping(), path)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    with pytest.raises(FileError, match="does not exist"):
        write_report(cases.flipping(), tmp_path / "no" / "report.html")


@pytest.mark.parametrize("missing", ["altair", "vl_convert", "jinja2"])
def test_a_missing_extra_says_what_to_install(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    for name in [name for name in sys.modules if name.startswith("truecal.render.report.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r'pip install "truecal\[report\]"'):
        render_report(cases.flipping())


def test_json_cannot_leave_its_script():
    text = "</script><!--&\u2028"
    assert "<" not in script_json(text) and "&" not in script_json(text) and json.loads(script_json(text)) == text
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))


def test_shortened_names_keep_both_ends():
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 5) == "ab…jk"
    assert distinct(["a", "a", "a (2)"]) == ["a", "a (2)", "a (2) (2)"]
