"""The report in a real browser: the control re-ranks, names stay text, nothing is loaded, it fits a phone and paper."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import numpy as np
import pytest

import chromium
import report_cases as cases
import truecal as tc
from truecal.core.result import clean
from truecal.render.report.text import shorten
from truecal.report import write_report
from truecal.results.diagram import main_diagram

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        chromium.browser_path() is None, reason="needs a Chromium browser (Debian: apt install chromium)"
    ),
]

LISTED = "[...document.querySelectorAll('#list-%s li .name')].map(node => node.textContent)"
DRAWN = """[...document.querySelectorAll('.chart')].map(node => {
  const svg = node.querySelector('svg'), box = svg?.getBoundingClientRect();
  const marks = [...node.querySelectorAll('.mark-symbol path, .mark-rect path, .mark-line path, .mark-rule line')];
  const seen = marks.filter(mark => { const b = mark.getBoundingClientRect(); return b.width > 0 || b.height > 0; });
  return [node.id, box ? box.width : 0, box ? box.height : 0, seen.length];
})"""


@pytest.fixture(scope="module")
def browser():
    with chromium.launch() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The pages: a comparison, hostile names, an evaluation, and a comparison of streams."""
    found = tmp_path_factory.mktemp("pages")
    write_report(cases.flipping(), found / "page.html")
    write_report(cases.hostile(), found / "hostile.html", title=cases.HOSTILE[1], classes=cases.HOSTILE[:5])
    y, p = [0, 1, 1, 0] * 10, [0.2, 0.9, 0.6, 0.1] * 10
    write_report(tc.evaluate(y, p, n_bins=(2, 5), n_resamples=19), found / "one.html")
    write_report(cases.streamed(), found / "streamed.html")
    return found


def set_control(browser, selector, value):
    """Choose a value as a person would, with the events that follow, and let the charts settle."""
    event = "input" if "bins" in selector else "change"
    browser.run(
        f"(() => {{ const node = document.querySelector({json.dumps(selector)}); node.value = {json.dumps(value)};"
        f"node.dispatchEvent(new Event('{event}', {{bubbles: true}})); }})()"
    )
    browser.settle()


def counts():
    return [row.n_bins for row in cases.flipping().evaluations["honest"].rows("classwise")]


def expected(error, n_bins, by="value"):
    """The order of the models by an error, its score or its loss."""
    found = (r for r in cases.flipping().rankings if (r.error, r.n_bins, r.by) == (error, n_bins, by))
    return list(next(found).order)


def open_details(browser):
    browser.run("document.querySelectorAll('details').forEach(node => { node.open = true; })")
    browser.wait("document.querySelector('#chain svg') !== null || document.querySelector('#chain') === null")
    browser.wait("document.querySelector('#gap svg') !== null")
    browser.settle()


def test_errors_that_are_all_truthful_are_called_so_on_both_sides(browser, folder, tmp_path):
    """Survival has no usual ECE."""
    time = [0.5, 1.0, 1.5, 2.0] * 15
    models = {"a": [0.2, 0.5, 0.3, 0.1] * 15, "b": [0.3, 0.4, 0.3, 0.2] * 15}
    found = tc.compare((time, [1, 1, 0, 1] * 15), models, horizons=1, n_bins=(2, 5), n_resamples=19)
    write_report(found, tmp_path / "survival.html")
    labels = "[...document.querySelectorAll('.side label')].map(node => node.textContent)"
    for page, wanted in ((tmp_path / "survival.html", "✓ truthful"), (folder / "page.html", "✗ can be gamed")):
        browser.open(page, width=1280, height=800)
        assert browser.run(labels) == [wanted, "✓ truthful"]


def test_the_first_screen_answers_at_once(browser, folder):
    """Verdict, leaderboard and what to do above the fold of a laptop, then the gaps and the three best models' bins."""
    browser.open(folder / "page.html", width=1280, height=800)
    bottom = "document.querySelector('%s').getBoundingClientRect().bottom"
    assert browser.run(bottom % ".verdict") < browser.run(bottom % ".lead") < browser.run(bottom % ".advice") < 800
    assert browser.run(bottom % ".gaps") < browser.run(
        "document.getElementById('diagram-0').getBoundingClientRect().top"
    )
    best = [row["model"] for row in cases.flipping().leaderboard()[:3]]
    chosen = "[0, 1, 2].map(i => document.getElementById(`model-${i}`).selectedOptions[0].textContent)"
    assert browser.run(chosen) == best
    bands = "[0, 1, 2].map(i => document.querySelectorAll(`#diagram-${i} .mark-area path`).length)"
    assert min(browser.run(bands)) > 0
    assert browser.run("document.getElementById('details').open") is False


@pytest.mark.parametrize("name", ["page", "hostile", "one"])
def test_a_phone_reads_it_in_a_few_screens(browser, folder, name):
    browser.open(folder / f"{name}.html", width=390, height=844)
    assert browser.run("document.documentElement.scrollHeight") <= 9000


def test_arrow_keys_turn_the_order_of_ece_alone(browser, folder):
    browser.open(folder / "page.html")
    comparison = cases.flipping()
    browser.run("document.getElementById('bins').focus()")
    browser.press("Home")
    seen = []
    for k, m in enumerate(counts()):
        if k:
            browser.press("ArrowRight")
        browser.wait(f"document.getElementById('bins-shown').textContent === '{m}'")
        left, right = browser.run(LISTED % "left"), browser.run(LISTED % "right")
        assert (left, right) == (expected("confidence_l1", m), expected(comparison.headline, None, "loss"))
        assert browser.run("document.getElementById('bins').getAttribute('aria-valuetext')") == f"{m} bins"
        said = browser.run("document.getElementById('said').textContent")
        assert f"At {m} bins ECE puts {left[0]} first, {left[-1]} last" in said
        assert f"the Brier score puts {right[0]} first, {right[-1]} last" in said
        seen.append((tuple(left), tuple(right)))
    left_orders, right_orders = ({pair[i] for pair in seen} for i in (0, 1))
    assert len(left_orders) > 1 and len(right_orders) == 1, "the fixture must flip by ECE alone"
    assert browser.complaints() == []


def test_moves_and_disagreements_are_counted(browser, folder):
    browser.open(folder / "page.html")
    first, _, third, *_ = counts()
    set_control(browser, "#bins", 0)
    set_control(browser, "#bins", 2)
    before, now = expected("confidence_l1", first), expected("confidence_l1", third)
    moves = browser.run("[...document.querySelectorAll('#list-left li .move')].map(node => node.textContent)")
    for name, move in zip(now, moves, strict=True):
        by = before.index(name) - now.index(name)
        assert move == ("" if by == 0 else f"{'▲' if by > 0 else '▼'}{abs(by)}")

    def turned(a, b):
        pairs = [(x, y) for x, y in product(a, a) if x < y]
        return sum((a.index(x) < a.index(y)) != (b.index(x) < b.index(y)) for x, y in pairs)

    other = expected("classwise", None, "loss")
    said = browser.run("document.getElementById('said').textContent")
    assert f"disagree on {turned(now, other)} of 10 pairs" in said
    assert f"since {first} bins: {turned(before, now)} under ECE and 0 under the Brier score" in said


def test_other_errors_can_be_chosen_also_those_with_fewer_bin_counts(browser, folder):
    browser.open(folder / "page.html")
    comparison = cases.flipping()
    set_control(browser, "#bins", len(counts()) - 1)
    most = max(m for r in comparison.rankings if r.error == "full" and (m := r.n_bins))
    assert most < counts()[-1]
    set_control(browser, "#right", "full")
    assert browser.run(LISTED % "right") == expected("full", most)
    assert f"measured at {most} bins" in browser.run("document.getElementById('said').textContent")
    set_control(browser, "#right", "classwise_two_bin score")
    assert browser.run(LISTED % "right") == expected("classwise_two_bin", None, "score")
    set_control(browser, "#left", "classwise_l1")
    assert browser.run(LISTED % "left") == expected("classwise_l1", counts()[-1])
    options = browser.run("[...document.querySelectorAll('#left option')].map(node => node.value)")
    assert options == [name for name in comparison.error_names if not tc.ERRORS[name].truthful]
    assert browser.complaints() == []


def test_models_move_unless_motion_is_unwelcome(browser, folder):
    for motion, moving in (("no-preference", True), ("reduce", False)):
        browser.open(folder / "page.html")
        browser.emulate("screen", motion=motion)
        count = browser.run(
            "(() => { const node = document.getElementById('bins');"
            "for (const k of [0, 3]) { node.value = k; node.dispatchEvent(new Event('input')); }"
            "return document.getAnimations().length; })()"
        )
        assert (count > 0) == moving
    browser.emulate("screen")


def test_the_sweep_goes_on_by_itself_until_stopped(browser, folder):
    browser.open(folder / "page.html")
    at = browser.run("document.getElementById('bins').value")
    browser.run("document.getElementById('play').click()")
    browser.wait(f"document.getElementById('bins').value !== '{at}'")
    assert browser.run("document.getElementById('play').getAttribute('aria-pressed')") == "true"
    browser.run("document.getElementById('play').click()")
    assert browser.run("document.getElementById('play').getAttribute('aria-pressed')") == "false"


def test_loss_and_u_are_drawn_when_opened_and_follow_the_control(browser, folder):
    browser.open(folder / "page.html")
    assert browser.run("document.querySelector('#decomposition svg')") is None
    open_details(browser)
    widths = (
        "[...document.querySelectorAll('#decomposition .mark-rect path')].map(node => node.getAttribute('d')).join()"
    )
    set_control(browser, "#bins", 0)
    first = browser.run(widths)
    set_control(browser, "#bins", 3)
    browser.wait(f"{widths} !== {json.dumps(first)}")
    set_control(browser, "#parts-error", "confidence")
    assert browser.run("document.getElementById('parts-bins').textContent") == f"{counts()[3]} bins"


@pytest.mark.parametrize("view", ["confidence 0", "classwise 2"])
def test_diagrams_show_the_bins_of_the_chosen_model_and_class(browser, folder, view):
    browser.open(folder / "page.html")
    comparison = cases.flipping()
    set_control(browser, "#view", view)
    name, j = view.split()
    for i, model in enumerate(comparison.names):
        set_control(browser, "#model-1", str(i))
        bands = comparison.evaluations[model].reliability[name].bands
        assert bands is not None
        out, bins = int(bands.outside[int(j)].sum()), bands.count.shape[1]
        told = browser.run("document.getElementById('told-1').textContent")
        assert told.startswith(f"{model}: {out} of {bins} bins outside the band, {0.05 * bins:.2g} expected")
        browser.wait(f"document.querySelectorAll('#diagram-1 .mark-symbol path').length === {bins}")
    assert browser.run("document.getElementById('stretch').checked") == (name == "classwise")
    assert browser.complaints() == []


def test_without_bands_no_point_is_called_inside_and_no_band_is_spoken_of(browser, folder):
    seen = "document.getElementById('banded').offsetParent !== null"
    points = "[...document.querySelectorAll('#diagram-0 .mark-symbol path')]"
    inks = f"{points}.map(node => node.getAttribute('fill'))"
    browser.open(folder / "page.html")
    assert browser.run(seen)
    of_bands = set(browser.run(inks))
    assert len(of_bands) == 2
    wide = (
        "[...document.querySelectorAll('#diagram-0 .mark-symbol path')].map(node => node.getBoundingClientRect().width)"
    )
    assert max(browser.run(wide)) > 1.3 * min(browser.run(wide))  # points outside are seen at once
    browser.open(folder / "streamed.html")
    assert not browser.run(seen)
    assert "no band" in browser.run("document.getElementById('told-0').textContent")
    found = set(browser.run(inks))
    assert len(found) == 1 and not of_bands & found


def test_ranks_of_two_models_are_one_and_two(browser, folder):
    browser.open(folder / "streamed.html")
    for side in ("left", "right"):
        axes = f"[...document.querySelectorAll('#bump-{side} .role-axis-label')]"
        labels = browser.run(f"{axes}.map(axis => [...axis.children].map(node => node.textContent).filter(Boolean))")
        assert ["1", "2"] in labels


@pytest.mark.parametrize(("name", "charts"), [("page", 8), ("hostile", 8), ("one", 3), ("streamed", 6)])
@pytest.mark.parametrize("width", [1280, 360])
def test_every_chart_is_drawn_and_nothing_is_wider_than_the_screen(browser, folder, name, charts, width):
    browser.open(folder / f"{name}.html", width=width)
    open_details(browser)
    drawn = browser.run(DRAWN)
    assert len(drawn) == charts
    for chart, wide, high, marks in drawn:
        assert 100 < wide <= width and high > 80 and marks > 0, chart
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []


@pytest.mark.parametrize("name", ["page", "hostile", "one"])
def test_tables_fold_on_a_phone_so_that_nothing_is_cut(browser, folder, name):
    browser.open(folder / f"{name}.html", width=360)
    open_details(browser)
    wide = browser.run(
        "[...document.querySelectorAll('.scroll')].filter(node => node.scrollWidth > node.clientWidth)"
        ".map(node => node.getAttribute('aria-label'))"
    )
    assert wide == []
    heads = browser.run("[...document.querySelectorAll('table thead')].map(node => getComputedStyle(node).display)")
    assert heads and set(heads) == {"none"}


@pytest.mark.parametrize("width", [780, 1000, 1200])
def test_the_leaderboard_is_whole_on_every_width(browser, folder, width):
    browser.open(folder / "page.html", width=width)
    assert browser.run("(node => node.scrollWidth <= node.clientWidth)(document.querySelector('.scroll'))")


@pytest.mark.parametrize("name", ["page", "hostile", "one"])
def test_nothing_is_asked_of_any_network(browser, folder, name):
    browser.open(folder / f"{name}.html")
    open_details(browser)
    for select in browser.run("[...document.querySelectorAll('select')].map(node => '#' + node.id)"):
        values = browser.run(
            f"[...document.querySelector('{select}').options].filter(o => !o.disabled).map(o => o.value)"
        )
        for value in (values[-1], values[0]):
            set_control(browser, select, value)
    assert browser.requests() == [(folder / f"{name}.html").resolve().as_uri()]
    assert browser.complaints() == []


def test_the_policy_stops_what_escaping_would_have_missed(browser, folder):
    browser.open(folder / "page.html")
    assert browser.run("fetch('http://127.0.0.1:9/').then(() => 'loaded', error => error.name)") == "TypeError"
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=\"x\" onerror=\"window.hit = 1\">')")
    browser.run("document.body.insertAdjacentHTML('beforeend', '<b onclick=\"window.hit = 1\" id=planted>b</b>')")
    browser.run("document.getElementById('planted').click()")
    browser.wait(lambda: sum("inline event handler" in words for words in browser.complaints()) == 2)
    assert browser.run("window.hit === undefined")
    assert any("Content Security Policy" in words and "127.0.0.1:9" in words for words in browser.complaints())


def test_hostile_names_are_text_everywhere(browser, folder):
    browser.open(folder / "hostile.html")
    names = [shorten(clean(name), 240) for name in cases.HOSTILE]
    assert sorted(browser.run(LISTED % "left")) == sorted(names)
    assert browser.run("[...document.querySelectorAll('#model-0 option')].map(o => o.textContent)")
    classes = browser.run("[...document.querySelectorAll('#view option')].map(o => o.textContent)")
    assert [f"class {shorten(clean(name), 80)}" for name in cases.HOSTILE[:5]] == classes[1:]
    assert browser.run("document.title") == clean(cases.HOSTILE[1])
    points = "[...document.querySelectorAll('#bump-left .mark-symbol path')]"
    seen = set()
    for i in range(browser.run(f"{points}.length")):
        x, y = browser.run(
            f"(() => {{ const node = {points}[{i}]; node.scrollIntoView({{block: 'center'}});"
            "const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if not browser.run("document.getElementById('tip').hidden"):
            seen.add(browser.run("document.querySelector('#tip bdi').textContent"))
            assert browser.run("document.querySelectorAll('#tip img, #tip script').length") == 0
    assert seen == set(names)
    assert browser.run("window.hit === undefined && document.querySelectorAll('img').length === 0")
    assert browser.run("document.querySelectorAll('script').length") == 4
    assert browser.complaints() == []


def test_hostile_labels_groups_and_segments_are_text(browser, tmp_path):
    """Labels, thresholds, subgroups and segments come from columns of a file, as names of models do."""
    rng = np.random.default_rng(0)
    names = list(cases.HOSTILE[:4])
    p = rng.dirichlet(np.ones(4), 200)
    group = np.array(names)[rng.integers(0, 4, 200)]
    y = np.array(names)[(p.cumsum(axis=1) < rng.random((200, 1))).sum(axis=1)]
    options: dict[str, Any] = {"by": {names[0]: group}, "features": {names[1]: group}, "n_resamples": 39}
    found = tc.evaluate(y, p, labels=names, task="ordered", name=names[2], advise=True, **options)
    write_report(found, tmp_path / "page.html", title=names[3], intro=names[0])
    browser.open(tmp_path / "page.html")
    shown = browser.run("[...document.querySelectorAll('#view option')].map(o => o.textContent)")
    assert [f"{clean(name)} or below" for name in names[:3]] == shown[:3]
    browser.run("document.querySelectorAll('details').forEach(node => { node.open = true; })")
    browser.settle()
    text = browser.run("document.body.textContent")
    assert all(clean(name) in text for name in names)
    assert browser.run("window.hit === undefined && document.querySelectorAll('img').length === 0")
    assert browser.run("document.querySelectorAll('script').length") == 4
    assert browser.complaints() == []


def test_every_control_has_a_name_and_takes_the_focus(browser, folder):
    browser.open(folder / "page.html")
    unnamed = browser.run(
        "[...document.querySelectorAll('select, input, button')]"
        ".filter(n => !(n.labels?.length || n.textContent.trim())).map(n => n.id)"
    )
    assert unnamed == []
    open_details(browser)
    reached: list[str] = []
    while "parts-error" not in reached and len(reached) < 60:
        browser.press("Tab")
        reached.append(browser.run("document.activeElement.id"))
    controls = ["view", "stretch", "model-0", "model-1", "model-2", "bins", "play", "left", "right", "parts-error"]
    assert [name for name in reached if name in controls] == controls
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_dark_and_print_change_the_ink_of_the_charts(browser, folder):
    ink = "getComputedStyle(document.querySelector('#diagram-0 .role-axis-label text')).fill"
    found = {}
    for scheme in ("light", "dark"):
        browser.open(folder / "page.html", scheme=scheme)
        found[scheme] = browser.run(ink)
    assert found["light"] != found["dark"]
    browser.emulate("print", "dark")
    assert browser.run(ink) == "rgb(0, 0, 0)"
    assert browser.run("document.getElementById('play').offsetParent") is None
    browser.emulate("screen")


@pytest.mark.parametrize("name", ["page", "one"])
def test_prints_on_two_pages(browser, folder, name):
    browser.open(folder / f"{name}.html")
    browser.emulate("print")
    paper = browser.pdf()
    browser.emulate("screen")
    assert paper.startswith(b"%PDF-") and len(re.findall(rb"/Type\s*/Page[^s]", paper)) <= 2


def test_diagrams_carry_their_numbers(browser, folder):
    browser.open(folder / "page.html")
    label = browser.run("document.getElementById('diagram-0').getAttribute('aria-label')")
    name = cases.flipping().leaderboard()[0]["model"]
    diagram = main_diagram(cases.flipping().evaluations[name])
    assert diagram is not None
    assert label.startswith(f"Reliability diagram of {name}: confidence ") and label.count("accuracy") == diagram.n_bins


def test_charts_follow_the_width_of_the_window(browser, folder):
    browser.open(folder / "page.html")
    wide = browser.run("document.querySelector('#bump-left svg').getBoundingClientRect().width")
    browser.resize(420)
    browser.wait("document.querySelector('#bump-left svg').getBoundingClientRect().width < 400")
    assert wide > 400
    browser.wait("document.documentElement.scrollWidth <= 420")
