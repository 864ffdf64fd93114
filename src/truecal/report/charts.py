"""The charts of the page as Vega-Lite specifications through Altair: named data, no values, no colours of their own.

The page puts the data in and sets widths and the theme. Models are told apart by colour and shape (fields c and s,
small numbers), never by their names, which only appear as text.
"""

from __future__ import annotations

from typing import Any, Literal

import altair as alt

COLORS = 8
"""Colours and shapes in the theme of the page; a model's pair of them is its own up to 64 models."""

_MARKS = {"c": list(range(COLORS)), "s": list(range(COLORS)), "d": list(range(4))}


def specifications() -> dict[str, dict[str, Any]]:
    """Every chart by name."""
    return {
        "bump": bump(),
        "decomposition": decomposition(),
        "distance": distance(),
        "reliability_linear": reliability("linear"),
        "reliability_sqrt": reliability("sqrt"),
        "chain": chain(),
    }


def _spec(chart: alt.Chart | alt.LayerChart, description: str) -> dict[str, Any]:
    found: dict[str, Any] = chart.properties(
        description=description, autosize=alt.AutoSizeParams(type="fit", contains="padding")
    ).to_dict()
    for key in ("config", "$schema"):  # the page brings its own theme, and the library that draws is inside
        found.pop(key, None)
    return found


def _color(field: str = "c", **options: Any) -> alt.Color:
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=_MARKS[field]), legend=None, **options)


def _shape() -> alt.Shape:
    return alt.Shape("s:N", scale=alt.Scale(domain=_MARKS["s"]), legend=None)


def bump() -> dict[str, Any]:
    """Rank at each bin count, one line per model: lines that cross are flips."""
    rank = alt.Y(
        "rank:Q",
        scale=alt.Scale(reverse=True, nice=False, zero=False, padding=14),
        axis=alt.Axis(
            title="rank (1 = lowest error)", tickMinStep=1, format="d", grid=False, domain=False, ticks=False
        ),
    )
    count = alt.X(
        "m:O",
        axis=alt.Axis(title="number of bins", labelAngle=0, domain=False, ticks=False, labelOverlap=True),
        scale=alt.Scale(type="point", padding=0.3),
    )
    lines = alt.Chart(alt.NamedData("lines"))
    here = alt.Chart(alt.NamedData("now")).mark_rule(strokeWidth=22, opacity=0.16, strokeCap="round").encode(x=count)
    line = lines.mark_line(strokeWidth=2.5, interpolate="monotone").encode(
        x=count,
        y=rank,
        color=_color(),
        detail="i:N",
        strokeDash=alt.StrokeDash("d:N", scale=alt.Scale(domain=_MARKS["d"]), legend=None),
    )
    point = lines.mark_point(filled=True, size=110, opacity=1).encode(
        x=count,
        y=rank,
        color=_color(),
        shape=_shape(),
        tooltip=[
            alt.Tooltip("name:N", title="model"),
            alt.Tooltip("bins:N", title="bins"),
            alt.Tooltip("rank:Q", title="rank"),
            alt.Tooltip("shown:N", title="value"),
        ],
    )
    names = (
        alt.Chart(alt.NamedData("names"))
        .mark_text(align="left", baseline="middle", dx=11, limit=140)
        .encode(x=count, y=rank, text="label:N")
    )
    return _spec(here + line + point + names, "Rank of every model at each bin count; lines that cross are flips.")


def _model_axis() -> alt.Y:
    axis = alt.Axis(title=None, labelLimit=170, domain=False, ticks=False, labelPadding=8)
    return alt.Y("label:N", sort=alt.SortField("order"), axis=axis)


def decomposition() -> dict[str, Any]:
    """n·error = loss + U per model: a bar for the loss, a thinner one for U from there, the interval of the sum."""
    models = alt.Chart(alt.NamedData("parts"))
    tooltip = [
        alt.Tooltip("name:N", title="model"),
        alt.Tooltip("loss_shown:N", title="loss"),
        alt.Tooltip("U_shown:N", title="U"),
        alt.Tooltip("score_shown:N", title="loss + U"),
        alt.Tooltip("test:N", title="calibration test"),
    ]
    value = alt.X("zero:Q", axis=alt.Axis(title="loss + U", grid=True, tickCount=5))
    loss = models.mark_bar(height=16).encode(
        x=value, x2="loss:Q", y=_model_axis(), color=alt.datum("loss"), tooltip=tooltip
    )
    u = models.mark_bar(height=8, strokeWidth=1).encode(
        x="loss:Q",
        x2="score:Q",
        y=_model_axis(),
        color=alt.Color(
            "sign:N",
            scale=alt.Scale(domain=["loss", "U above 0", "U below 0"], range=["#8fb8d8", "#d55e00", "#009e73"]),
            legend=None,
        ),
        tooltip=tooltip,
    )
    whisker = models.mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q", y=_model_axis())
    end = models.mark_tick(thickness=2.5, size=20).encode(x="score:Q", y=_model_axis(), tooltip=tooltip)
    return _spec(loss + u + whisker + end, "Loss plus U of every model, with the interval of the sum.")


def distance() -> dict[str, Any]:
    """U of every model with its interval, around the line where calibrated models lie."""
    models = alt.Chart(alt.NamedData("parts"))
    zero = alt.Chart(alt.NamedData("origin")).mark_rule(strokeDash=[5, 4], strokeWidth=1.5).encode(x="zero:Q")
    axis = alt.Axis(title="U: distance from calibrated", tickCount=5)
    whisker = models.mark_rule(strokeWidth=2).encode(
        x=alt.X("U_low:Q", axis=axis), x2="U_high:Q", y=_model_axis(), color=_color()
    )
    point = models.mark_point(filled=True, size=120, opacity=1).encode(
        x="U:Q",
        y=_model_axis(),
        color=_color(),
        shape=_shape(),
        tooltip=[
            alt.Tooltip("name:N", title="model"),
            alt.Tooltip("U_shown:N", title="U"),
            alt.Tooltip("test:N", title="calibration test"),
            alt.Tooltip("direction:N", title="direction"),
        ],
    )
    return _spec(zero + whisker + point, "U of every model with its interval; calibrated models lie around zero.")


def reliability(scale: Literal["linear", "sqrt"]) -> dict[str, Any]:
    """How often it came against how likely it was said to be, with the band where calibrated points fall."""
    unit = alt.Scale(domain=[0, 1], type=scale, nice=False, clamp=True)
    values = [0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1] if scale == "sqrt" else [0, 0.2, 0.4, 0.6, 0.8, 1]

    def axis(title: str) -> alt.Axis:
        return alt.Axis(title=title, values=values, format="~%", labelOverlap=True)

    x = alt.X("x:Q", scale=unit, axis=axis("predicted probability"))
    y = alt.Y("y:Q", scale=unit, axis=axis("observed frequency"))
    bins = alt.Chart(alt.NamedData("bins"))
    band = bins.mark_area(opacity=0.3).encode(
        x=x, y=alt.Y("low:Q", scale=unit), y2="high:Q", color=alt.value("#8a8f98")
    )
    diagonal = (
        alt.Chart(alt.NamedData("diagonal"))
        .mark_line(strokeDash=[5, 4], strokeWidth=1.2)
        .encode(x=x, y=y, color=alt.value("#8a8f98"))
    )
    line = bins.mark_line(strokeWidth=1.6, opacity=0.75).encode(x=x, y=y, color=_color())
    point = bins.mark_point(filled=True, opacity=1, strokeWidth=1.5).encode(
        x=x,
        y=y,
        color=alt.Color(
            "where:N", scale=alt.Scale(domain=["inside", "outside"], range=["#56b4e9", "#d55e00"]), legend=None
        ),
        shape=alt.Shape(
            "where:N", scale=alt.Scale(domain=["inside", "outside"], range=["circle", "diamond"]), legend=None
        ),
        size=alt.Size("where:O", scale=alt.Scale(domain=["inside", "outside"], range=[55, 150]), legend=None),
        tooltip=[
            alt.Tooltip("x_shown:N", title="predicted"),
            alt.Tooltip("y_shown:N", title="observed"),
            alt.Tooltip("band:N", title="if calibrated"),
            alt.Tooltip("n:N", title="samples"),
            alt.Tooltip("where:N", title="band"),
        ],
    )
    chart = alt.layer(band, diagonal, line, point).resolve_scale(color="independent", shape="independent")
    return _spec(chart, "Observed frequency against predicted probability, bin by bin.")


def chain() -> dict[str, Any]:
    """Ranks along the longest chain of the dominance order: a line that never falls agrees with it."""
    places = alt.Chart(alt.NamedData("places"))
    x = alt.X(
        "label:N",
        sort=alt.SortField("place"),
        axis=alt.Axis(title="dominance chain, best first", labelLimit=120, labelAngle=-30, grid=False),
        scale=alt.Scale(type="point", padding=0.4),
    )
    y = alt.Y(
        "rank:Q",
        scale=alt.Scale(reverse=True, nice=False, zero=False, padding=14),
        axis=alt.Axis(title="rank", tickMinStep=1, format="d", domain=False),
    )
    kinds = ["ece", "truthful"]
    color = alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=["#d55e00", "#2f8fd0"]), legend=None)
    line = places.mark_line(strokeWidth=2.5).encode(
        x=x,
        y=y,
        color=color,
        strokeDash=alt.StrokeDash("kind:N", scale=alt.Scale(domain=kinds, range=[[6, 4], [1, 0]]), legend=None),
    )
    point = places.mark_point(strokeWidth=2.5, opacity=1).encode(
        x=x,
        y=y,
        color=color,
        size=alt.Size("kind:O", scale=alt.Scale(domain=kinds, range=[260, 70]), legend=None),
        shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=["square", "circle"]), legend=None),
        tooltip=[
            alt.Tooltip("name:N", title="model"),
            alt.Tooltip("symbol:N", title="error"),
            alt.Tooltip("rank:Q", title="rank"),
        ],
    )
    return _spec(line + point, "Rank of the models along the dominance chain under two errors.")
