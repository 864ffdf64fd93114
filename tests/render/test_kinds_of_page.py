"""What the report draws first for each kind of prediction, and how its views are called."""

from __future__ import annotations

import pytest

import answer_worlds as worlds
from truecal.render.palette import LINES
from truecal.render.report.content import payload, read
from truecal.results.diagram import main_diagram, reliability_svg, worst_view

KINDS = ("binary", "multiclass", "ordered", "multilabel", "distribution", "survival", "top", "answers")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_diagram_is_that_of_the_gap_and_begins_where_the_model_is_farthest_off(kind: str) -> None:
    found = worlds.evaluated(kind, *worlds.arguments(kind, 400, sharpen=1.6))
    diagram = main_diagram(found)
    assert diagram is not None and diagram.error == found.gap_name
    drawn = payload(read(found, None))["reliability"]
    name, first = next(iter(drawn.items()))
    assert name == found.gap_name
    if not found.views:
        assert (first["start"], first["names"]) == (0, None)
        return
    assert sorted(first["names"]) == sorted(view.name for view in found.views)
    worst = next(view for view in found.views if view.name == first["names"][first["start"]])
    assert worst.gap.low == max(view.gap.low for view in found.views if not view.gap.note)
    assert worst.name == diagram.names[worst_view(found, diagram)] and f", {worst.name}<" in reliability_svg(found)


def test_no_line_has_the_colour_of_what_is_off() -> None:
    for color in LINES:
        red, blue = int(color[1:3], 16), int(color[5:7], 16)
        assert not (red > 180 and blue < 60), color
