"""The charts of the page as Vega-Lite specifications through Altair: named data, no values, no colours of their own.

The page puts the data in and sets widths and the theme. Models are told apart by colour and shape (fields c and s,
small numbers), never by their names, which only appear as text.
"""

from __future__ import annotations

from typing import Any, Literal

import altair as alt

from truecal.render.palette import LINES

COLORS = len(LINES)
"""Colours and shapes in the theme of the page; a model's pair of them is its own up to 64 models."""

_MARKS = {"c": list(range(COLORS)), "s": list(range(COLORS)), "d": list(range(4))}


def specifications() -> dict[str, dict[str, Any]]:
    """Every chart by name."""
    return {
        "bump": bump(),
        "decomposition": decomposition(),
        "gap": gap(),
        "reliability_linear": reliability("linear"),
        "reliability_sqrt": reliability("sqrt"),
        "chain": chain(),
    }


def _spec(chart: alt.LayerChart, description: str) -> dict[str, Any]:
    found: dict[str, Any] = chart.properties(
        description=description, autosize=alt.AutoSizeParams(type="fit", contains="padding")
    ).to_dict()
    for key in ("config", "$schema"):  # the page brings its own theme, and the library that draws is inside
        found.pop(key, None)
    return found


def _data(name: str) -> alt.Chart:
    return alt.Chart(alt.NamedData(name))


def _scale(domain: list[Any], *values: Any) -> dict[str, Any]:
    """Options of a channel without a legend: the page explains its marks in words."""
    given: Any = {"range": list(values)} if values else {}
    return {"scale": alt.Scale(domain=domain, **given), "legend": None}


def _color() -> alt.Color:
    return alt.Color("c:N", **_scale(_MARKS["c"]))


def _shape() -> alt.Shape:
    return alt.Shape("s:N", **_scale(_MARKS["s"]))


def _tooltip(fields: dict[str, str]) -> list[alt.Tooltip]:
    """Fields shown as text, each under its title."""
    return [alt.Tooltip(f"{field}:N", title=title) for title, field in fields.items()]


def _rank(title: str, **axis: Any) -> alt.Y:
    scale = alt.Scale(reverse=True, nice=False, zero=False, padding=14)
    whole = "datum.value % 1 ? '' : format(datum.value, 'd')"  # between two models there is no place
    return alt.Y(
        "rank:Q", scale=scale, axis=alt.Axis(title=title, tickMinStep=1, labelExpr=whole, domain=False, **axis)
    )


def bump() -> dict[str, Any]:
    """Rank at each bin count, one line per model: lines that cross are flips."""
    axis = alt.Axis(title="number of bins", labelAngle=0, domain=False, ticks=False, labelOverlap=True)
    place: dict[str, Any] = {"x": alt.X("m:O", axis=axis, scale=alt.Scale(type="point", padding=0.3))}
    here = _data("now").mark_rule(strokeWidth=22, opacity=0.16, strokeCap="round").encode(**place)
    place["y"] = _rank("rank", grid=False, ticks=False)
    line = (
        _data("lines")
        .mark_line(strokeWidth=2.5, interpolate="monotone")
        .encode(**place, color=_color(), detail="i:N", strokeDash=alt.StrokeDash("d:N", **_scale(_MARKS["d"])))
    )
    tooltip = _tooltip({"model": "name", "bins": "bins", "rank": "rank", "value": "shown"})
    point = (
        _data("lines")
        .mark_point(filled=True, size=110, opacity=1)
        .encode(**place, color=_color(), shape=_shape(), tooltip=tooltip)
    )
    text = _data("names").mark_text(align="left", baseline="middle", dx=11, limit=140)
    names = text.encode(**place, text="label:N")
    return _spec(here + line + point + names, "Rank of every model at each bin count; lines that cross are flips.")


def _model_axis() -> alt.Y:
    axis = alt.Axis(title=None, labelLimit=170, domain=False, ticks=False, labelPadding=8)
    return alt.Y("label:N", sort=alt.SortField("order"), axis=axis)


def decomposition() -> dict[str, Any]:
    """n·error = loss + U per model: a bar for the loss, a thinner one for U from there, with its interval."""
    models, y = _data("parts"), _model_axis()
    tooltip = _tooltip({"model": "name", "loss": "loss_shown", "U": "U_shown", "calibrated?": "test"})
    value = alt.X("zero:Q", axis=alt.Axis(title="loss + U", grid=True, tickCount=5))
    sign = alt.Color("sign:N", **_scale(["loss", "U above 0", "U below 0"], "#8fb8d8", "#7b4fb5", "#009e73"))
    loss = models.mark_bar(height=16).encode(x=value, x2="loss:Q", y=y, color=alt.datum("loss"), tooltip=tooltip)
    u = models.mark_bar(height=8, strokeWidth=1).encode(x="loss:Q", x2="sum:Q", y=y, color=sign, tooltip=tooltip)
    whisker = models.mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q", y=y)
    end = models.mark_tick(thickness=2.5, size=20).encode(x="sum:Q", y=y, tooltip=tooltip)
    return _spec(loss + u + whisker + end, "Loss plus U of every model, with the interval of U.")


def gap() -> dict[str, Any]:
    """The gap of every model in points with its interval, around the line where calibrated models lie."""
    models, y = _data("parts"), _model_axis()
    zero = _data("origin").mark_rule(strokeDash=[5, 4], strokeWidth=1.5).encode(x="zero:Q")
    low = alt.X("gap_low:Q", axis=alt.Axis(title="gap in points", tickCount=5))
    whisker = models.mark_rule(strokeWidth=2).encode(x=low, x2="gap_high:Q", y=y, color=_color())
    tooltip = _tooltip({"model": "name", "gap in points": "gap_shown", "calibrated?": "test", "direction": "direction"})
    point = models.mark_point(filled=True, size=120, opacity=1).encode(
        x="gap:Q", y=y, color=_color(), shape=_shape(), tooltip=tooltip
    )
    return _spec(zero + whisker + point, "The gap of every model in points; calibrated models lie around zero.")


def reliability(scale: Literal["linear", "sqrt"]) -> dict[str, Any]:
    """The reliability diagram, with the band of calibrated predictions and a histogram of predictions."""
    unit = alt.Scale(domain=[0, 1], type=scale, nice=False, clamp=True)
    values = [0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1] if scale == "sqrt" else [0, 0.2, 0.4, 0.6, 0.8, 1]

    def axis(title: str) -> alt.Axis:
        return alt.Axis(title=title, values=values, format="~%", labelOverlap=True)

    x = alt.X("x:Q", scale=unit, axis=axis("predicted probability"))
    y = alt.Y("y:Q", scale=unit, axis=axis("observed frequency"))
    bins, grey = _data("bins"), alt.value("#8a8f98")
    band = bins.mark_area(opacity=0.3).encode(x=x, y=alt.Y("low:Q", scale=unit), y2="high:Q", color=grey)
    diagonal = _data("diagonal").mark_line(strokeDash=[5, 4], strokeWidth=1.2).encode(x=x, y=y, color=grey)
    bars = (
        _data("histogram")
        .mark_rect(opacity=0.35)
        .encode(x=alt.X("left:Q", scale=unit), x2="right:Q", y=alt.Y("zero:Q", scale=unit), y2="top:Q", color=grey)
    )
    where = ["inside", "outside", "no band"]
    point = bins.mark_point(filled=True, opacity=1, strokeWidth=1.5).encode(
        x=x,
        y=y,
        color=alt.Color("where:N", **_scale(where, "#56b4e9", "#d55e00", "#8a8f98")),
        shape=alt.Shape("where:N", **_scale(where, "circle", "diamond", "circle")),
        size=alt.condition("datum.where === 'outside'", alt.value(150), alt.value(55)),
        tooltip=_tooltip(
            {"predicted": "x_shown", "observed": "y_shown", "if calibrated": "band", "samples": "n", "band": "where"}
        ),
    )
    chart = alt.layer(bars, band, diagonal, point).resolve_scale(color="independent", shape="independent")
    return _spec(chart, "Observed frequency against predicted probability, bin by bin.")


def chain() -> dict[str, Any]:
    """Ranks along the longest chain of the dominance order: a line that never falls agrees with it."""
    places, kinds = _data("places"), ["ece", "truthful"]
    x = alt.X(
        "label:N",
        sort=alt.SortField("place"),
        axis=alt.Axis(title="dominance chain, best first", labelLimit=120, labelAngle=-30, grid=False),
        scale=alt.Scale(type="point", padding=0.4),
    )
    shared = {"x": x, "y": _rank("rank"), "color": alt.Color("kind:N", **_scale(kinds, "#8a8f98", "#2f8fd0"))}
    dash = alt.StrokeDash("kind:N", **_scale(kinds, [6, 4], [1, 0]))
    line = places.mark_line(strokeWidth=2.5).encode(**shared, strokeDash=dash)
    point = places.mark_point(strokeWidth=2.5, opacity=1).encode(
        **shared,
        size=alt.Size("kind:O", **_scale(kinds, 260, 70)),
        shape=alt.Shape("kind:N", **_scale(kinds, "square", "circle")),
        tooltip=_tooltip({"model": "name", "ranked by": "way", "rank": "rank"}),
    )
    return _spec(line + point, "Rank of the models along the dominance chain under two errors.")


def decision_chart(result: Any, names: list[str], net: bool) -> dict[str, Any]:
    """Net benefit, or the mean of L_t, over thresholds, with bands for up to three models; it has its data inside."""
    t, pi = result.thresholds, result.prevalence
    curves = [curve.net_benefit if net else curve.loss for curve in result.curves]
    rows = [
        {"model": name, "t": at, "y": y, "low": low, "high": high}
        for name, band in zip(names, curves, strict=True)
        for at, y, low, high in zip(t, band.estimate, band.band_low, band.band_high, strict=True)
    ]
    everybody, nobody = (result.act_on_all.estimate, 0 * t) if net else (t * (1 - pi), (1 - t) * pi)
    for name, values in (("act on all", everybody), ("act on none", nobody)):
        rows += [{"model": name, "t": at, "y": y} for at, y in zip(t, values, strict=True)]
    domain = [-0.25 * pi, 1.12 * pi] if net else [0, 1.05 * max(band.band_high.max() for band in curves)]
    shown = [*names, "act on all", "act on none"]
    about: Any = {"title": None, "legend": alt.Legend(symbolType="stroke", symbolStrokeWidth=3, symbolOpacity=1.0)}
    colors = [LINES[i % len(LINES)] for i in range(len(names))] + ["#888888"] * 2
    dashes = alt.Scale(domain=shown, range=[[1, 0]] * len(names) + [[6, 4], [2, 3]])
    x = alt.Scale(domain=[0, result.last_used if net else 1.0], nice=False)
    y = alt.Scale(domain=domain, nice=False)
    base = alt.Chart(alt.InlineData(rows)).encode(
        x=alt.X("t:Q", title="threshold", scale=x),
        color=alt.Color("model:N", scale=alt.Scale(domain=shown, range=colors), **about),
    )
    lines = base.mark_line(clip=True).encode(
        y=alt.Y("y:Q", scale=y, title=None), strokeDash=alt.StrokeDash("model:N", scale=dashes, **about)
    )
    band = base.mark_area(clip=True, opacity=0.18 * (len(names) <= 3)).encode(y=alt.Y("low:Q", scale=y), y2="high:Q")
    return _alone(band + lines, 400, 260)


def _alone(chart: Any, width: int, height: int) -> dict[str, Any]:
    """A chart with its data inside, in colours that can be read on light and dark pages."""
    text: Any = {"labelColor": "#808080", "titleColor": "#808080"}
    chart = chart.properties(width=width, height=height, background="transparent")
    found: dict[str, Any] = chart.configure_axis(gridOpacity=0.3, **text).configure_legend(**text).to_dict()
    return found


def risk_chart(result: Any) -> dict[str, Any]:
    """Flexible calibration curves over the distribution of risks by outcome; it has its data inside."""
    c, scale = result.curve, alt.Scale(domain=[-0.22, 1], nice=False)
    columns = vars(c) | {"loess": c.loess.clip(0, 1)}
    rows = [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=True)]
    sizes = 0.09 * result.risks / max(1, result.risks.max())
    bars = [
        {"left": left, "right": right, "from": -0.12, "to": -0.12 + way * size, "event": way > 0}
        for way, heights in zip((-1, 1), sizes, strict=True)
        for left, right, size in zip(result.edges[:-1], result.edges[1:], heights, strict=True)
    ]
    base = alt.Chart(alt.InlineData(rows)).encode(
        x=alt.X("risk:Q", title="predicted risk", scale=alt.Scale(domain=[0, 1]))
    )

    def line(name: str, color: str, *dash: int) -> Any:
        axis = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1])
        y = alt.Y(f"{name}:Q", title="observed frequency", scale=scale, axis=axis)
        return base.mark_line(clip=True, color=color, strokeDash=list(dash) or [1, 0]).encode(y=y)

    band = base.mark_area(color=LINES[0], opacity=0.18).encode(y=alt.Y("loess_low:Q", scale=scale), y2="loess_high:Q")
    ideal = base.mark_line(color="#888888", strokeDash=[5, 4]).encode(y=alt.Y("risk:Q", scale=scale))
    rug = alt.Chart(alt.InlineData(bars)).mark_rect().encode(
        x="left:Q", x2="right:Q", y=alt.Y("from:Q", scale=scale), y2="to:Q",
        color=alt.Color("event:N", legend=None, scale=alt.Scale(range=["#888888", LINES[2]])),
    )  # fmt: skip
    spline = [line("spline", LINES[1]), *(line(f"spline_{end}", LINES[1], 2, 3) for end in ("low", "high"))]
    return _alone(alt.layer(band, ideal, rug, line("loess", LINES[0]), *spline), 420, 420)
