"""The paper's four figures with the score beside them, and what happens along a trace; nothing is measured here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from importlib.resources import as_file, files
from itertools import cycle
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

import truecal as tc
from reproduction.checkpoints import (
    BINS,
    EVERY_FAMILY,
    FAMILIES,
    LOSSES,
    RECALIBRATIONS,
    SCORES,
    TABLE_BINNING,
    TRUTHFUL,
    associated_loss,
    by_bins,
    error_column,
)
from reproduction.correlations import REFERENCE, chain_correlation
from reproduction.mechanism import ALL, TEMPERATURE, VARIANTS, gap_of
from reproduction.smoothing import kernel_regression
from reproduction.traces import WITHIN, heading, kind
from truecal.io import atomic_path

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE_1 = ("ConfECE", "ConfCE_corr", "LinCE_cw", "score_ConfCE_corr")
TRENDS = ("ConfECE", "ConfCE", "ConfCE_corr", "LinCE_cw", *SCORES)
# Colours that people with any colour vision tell apart (Okabe and Ito), one per bin count throughout.
BIN_COLOURS = {5: "#D55E00", 20: "#0072B2", 2000: "#009E73"}
MODEL_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C510A", "#6A3D9A", "#000000")
SMALL = (8.4, 3.9)  # inches
FORMATS = ("png", "pdf")
RESOLUTION = {"png": 130, "pdf": 300}  # for screens; in print only the points are pixels


def draw_all(table: pd.DataFrame, experiment: str, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw the four figures of one experiment into ``folder``, one file each and per format."""
    drawn = {"figure1": figure_1, "assumption": assumption, "dominance": dominance, "trends": trends}
    written = []
    for name, draw in drawn.items():
        written += _save(partial(draw, table, experiment), folder / f"{experiment}_{name}", formats)
    return written


def draw_mechanism(
    tables: Mapping[str, pd.DataFrame], mechanism: pd.DataFrame, folder: Path, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Draw what happens along the traces of the within-model experiments, and what recalibration does to it."""
    within = {name: table for name, table in tables.items() if kind(name) == WITHIN}
    written = _save(partial(along_traces, within), folder / "along_traces", formats) if within else []
    if within and set(mechanism["recalibration"]) & set(RECALIBRATIONS):
        written += _save(partial(recalibrated, mechanism, list(within)), folder / "recalibrated", formats)
    return written


def _save(draw: Callable[[], Figure], path: Path, formats: Sequence[str]) -> list[Path]:
    import matplotlib.style

    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.parent / f"{path.name}.{suffix}" for suffix in formats]
    with as_file(files("reproduction") / "data/figures.mplstyle") as style, matplotlib.style.context(style):
        figure = draw()
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out and measured once, for all formats alike
        box = figure.get_tightbbox().padded(matplotlib.rcParams["savefig.pad_inches"])
        for file, suffix in zip(written, formats, strict=True):
            # No date in the file: the same table gives the same bytes.
            undated = {"CreationDate": None} if suffix == "pdf" else None
            with atomic_path(file) as temporary:
                figure.savefig(temporary, metadata=undated, dpi=RESOLUTION.get(suffix, 200), bbox_inches=box)
    return written


def along_traces(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Classification error, temperature and gap against the epoch: a column per experiment, a line per trace."""
    figure, axes = _grid(3, len(tables), (1.6 + 3.6 * len(tables), 7.6), sharey="row")
    for column, (name, table) in zip(axes.T, tables.items(), strict=True):
        shown = [(REFERENCE, "classification error"), ("temperature", "temperature"), (gap_of(table), "gap (points)")]
        for axis, (values, label) in zip(column, shown, strict=True):
            for fraction, part in table.groupby("fraction"):
                axis.plot(part["epoch"], part[values], lw=1.1, color=_fraction_colour(float(str(fraction))))
            axis.set(xlabel="epoch", ylabel=label)
        _logarithmic(column[1])
        column[2].axhline(0, color="black", lw=0.6)
        column[0].set_title(heading(name))
    _fraction_bar(figure, axes)
    return figure


def recalibrated(mechanism: pd.DataFrame, experiments: Sequence[str]) -> Figure:
    """Each trace's rank correlation of gap and classification error, after every recalibration."""
    figure, ((axis,),) = _grid(1, 1, SMALL)
    measured = [key for key in (TEMPERATURE, *RECALIBRATIONS) if key in set(mechanism["recalibration"])]
    rows = mechanism[(mechanism["trace"] != ALL) & mechanism["recalibration"].isin(measured)]
    for i, name in enumerate(experiments):
        part = rows[rows["experiment"] == name]
        places = part["recalibration"].map(measured.index) + 0.25 * (i - (len(experiments) - 1) / 2)
        axis.scatter(places, part["r_gap"], s=22, color=MODEL_COLOURS[i], alpha=0.7, lw=0, label=heading(name))
    axis.axhline(0, color="black", lw=0.6)
    axis.set_xticks(range(len(measured)), ["\n".join(wrap(VARIANTS[key], 22)) for key in measured])
    axis.set_ylabel("r(gap, classification error), one dot per trace")
    _finish(figure, "Below zero: training lowers the error while the gap of the confidence grows")
    return figure


def figure_1(table: pd.DataFrame, experiment: str) -> Figure:
    """Three errors and the score (columns) at the most and the fewest bins (rows) against classification error."""
    from matplotlib.lines import Line2D

    figure, axes = _grid(2, len(FIGURE_1), (12.4, 5.6))
    models = list(dict.fromkeys(table["model"]))
    one = kind(experiment) == WITHIN or len(models) == 1
    hues = {} if one else dict(zip(models, cycle(MODEL_COLOURS), strict=False))
    for row, bins in zip(axes, (max(BINS), min(BINS)), strict=True):
        for axis, family in zip(row, FIGURE_1, strict=True):
            column = error_column(family, TABLE_BINNING[family], bins)
            for (trace, model, fraction), part in table.groupby(["trace", "model", "fraction"], sort=False):
                colour = _trace_colour(hues.get(str(model)), float(str(fraction)))
                _cloud(axis, part[REFERENCE], part[column], colour, s=8, alpha=0.75, label=str(trace))
            words = f"{_title(family)}\n{bins} {_bins_word(family)} bins"
            axis.set(title=words, xlabel="classification error", ylabel=EVERY_FAMILY[family].label)
    if hues:
        keys = [Line2D([], [], ls="", marker="o", color=hue, label=model) for model, hue in hues.items()]
        figure.legend(handles=keys, loc="outside lower center", ncols=3)
    else:
        _fraction_bar(figure, axes)
    words = "one hue per model, lighter for less training data" if hues else table["model"].iloc[0]
    figure.suptitle(f"{heading(experiment)}: {words}")
    return figure


def assumption(table: pd.DataFrame, experiment: str) -> Figure:
    """n times each truthful error against its associated loss; calibrated predictors lie on the line on average."""
    figure, axes = _grid(1, 2, SMALL)
    losses = ("confidence loss", "Brier loss / number of classes")
    for axis, family, title, words in zip(axes[0], TRUTHFUL, ("confidence", "classwise"), losses, strict=True):
        loss = associated_loss(table, FAMILIES[family])
        scaled = {bins: table["n_test"] * values for bins, values in by_bins(table, family).items()}
        for bins, values in scaled.items():
            _cloud(axis, loss, values, BIN_COLOURS[bins], s=7, alpha=0.5, label=f"{bins} bins")
        _spread_out(axis, scaled.values())
        ends = np.linspace(float(loss.min()), float(loss.max()), 100)
        axis.plot(ends, ends, color="black", lw=1.2, ls=":", label="calibrated: n · error = loss")
        axis.locator_params(axis="x", nbins=6)
        axis.set(title=title, xlabel=words, ylabel=f"n · {FAMILIES[family].label}")
    _finish(figure, f"{heading(experiment)}: distance from the calibrated line")
    return figure


def dominance(table: pd.DataFrame, experiment: str) -> Figure:
    """Each truthful error along the longest dominance chain, with its rank correlation to that order."""
    figure, axes = _grid(1, 2, SMALL)
    chain = tc.analysis.dominance(table[list(LOSSES)].to_numpy(dtype=np.float64)).chain
    places = np.arange(1, len(chain) + 1)
    for axis, family in zip(axes[0], TRUTHFUL, strict=True):
        label = FAMILIES[family].label
        along = {bins: values[list(chain)] for bins, values in by_bins(table, family).items()}
        for bins, values in along.items():
            axis.plot(places, values, "o-", ms=2.2, lw=0.8, color=BIN_COLOURS[bins], label=f"{bins} bins")
        r = " / ".join(f"{chain_correlation(values, range(len(chain))):.3f}" for values in along.values())
        _spread_out(axis, along.values())
        title = f"{label} along the chain\nr = {r} at {' / '.join(map(str, along))} bins"
        axis.set(title=title, xlabel="place in the dominance order (1 = best)", ylabel=label)
    _finish(figure, f"{heading(experiment)}: {len(chain)} of {len(table)} checkpoints form the longest chain")
    return figure


def trends(table: pd.DataFrame, experiment: str) -> Figure:
    """Errors and scores against classification error, points and kernel-regression curves for every bin count."""
    figure, axes = _grid(2, 3, (12.0, 6.8))
    x = table[REFERENCE].to_numpy(dtype=np.float64)
    for axis, family in zip(axes.flat, TRENDS, strict=True):
        measured = by_bins(table, family)
        for bins, y in measured.items():
            _cloud(axis, x, y, BIN_COLOURS[bins], s=6, alpha=0.35)
            curve = kernel_regression(x, y)
            axis.plot(curve.x, curve.y, color=BIN_COLOURS[bins], lw=2, label=f"{bins} bins")
        _spread_out(axis, measured.values())
        words = f"{_title(family)}, {_bins_word(family)} bins"
        axis.set(title=words, xlabel="classification error", ylabel=EVERY_FAMILY[family].label)
    _finish(figure, f"{heading(experiment)}: trends by kernel regression")
    return figure


def _cloud(axis: Axes, x: Any, y: Any, colour: Any, **options: Any) -> None:
    axis.scatter(x, y, color=[colour], lw=0, rasterized=True, **options)


def _spread_out(axis: Axes, series: Collection[Any]) -> None:
    """A logarithmic scale where one bin count's errors would flatten another's to a line."""
    middles = [float(np.median(values)) for values in series]
    if min(float(np.min(values)) for values in series) > 0 and max(middles) > 4 * min(middles):
        _logarithmic(axis, _small_number if max(middles) < 0.01 else "{x:g}")


def _logarithmic(axis: Axes, number: str | Callable[[float, object], str] = "{x:g}") -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter(number)
    axis.yaxis.set_minor_formatter(NullFormatter())


def _small_number(value: float, _: object = None) -> str:
    """A number such as 2e-5, without the zero that Python puts into its exponent.

    >>> _small_number(2e-5)
    '2e-5'
    """
    return f"{value:.0e}".replace("e-0", "e-")


def _grid(rows: int, columns: int, size: tuple[float, float], sharey: Any = False) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharey=sharey)


def _trace_colour(hue: str | None, fraction: float) -> Any:
    """Within one model the fraction is the hue; across models the model is, lighter for smaller fractions."""
    from matplotlib.colors import to_rgb

    if hue is None:
        return _fraction_colour(fraction)
    base = np.array(to_rgb(hue))
    return tuple(base + (1 - base) * 0.65 * (1 - fraction))


def _fraction_colour(fraction: float) -> Any:
    import matplotlib as mpl

    return mpl.colormaps["viridis"](0.95 - 0.95 * fraction)


def _fraction_bar(figure: Figure, axes: Any) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    scale = ScalarMappable(Normalize(0, 100), ListedColormap([_fraction_colour(f) for f in np.linspace(0, 1, 256)]))
    figure.colorbar(scale, ax=axes, label="training data used (%), one colour per trace", aspect=40, pad=0.01)


def _finish(figure: Figure, title: str) -> None:
    """The title above, and below the legend of the first panel, in full colours."""
    figure.suptitle(title)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    legend = figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1)


def _title(family: str) -> str:
    return f"{EVERY_FAMILY[family].label} ({'truthful' if EVERY_FAMILY[family].truthful else 'not truthful'})"


def _bins_word(family: str) -> str:
    return "equal-width" if TABLE_BINNING[family] == "fix" else "quantile"
