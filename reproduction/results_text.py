"""RESULTS.md: which of the paper's claims hold in a run and why, from the computed numbers alone.

The words are in data/RESULTS.md.j2; here are the facts that they tell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

import truecal as tc
from reproduction.checkpoints import (
    BINS,
    FAMILIES,
    LOSSES,
    PAPER_BINNING,
    RECALIBRATIONS,
    SCORES,
    TABLE_BINNING,
    TRUTHFUL,
    associated_loss,
    by_bins,
    error_column,
    u_column,
)
from reproduction.correlations import REFERENCE, SPLITS, chain_correlation, rank_correlations, to_markdown
from reproduction.mechanism import ALL, TEMPERATURE, VARIANTS
from reproduction.traces import WITHIN, heading, kind
from truecal.core.extras import require
from truecal.results.ranking import Dominance

if TYPE_CHECKING:
    import pandas as pd

NOT_TRUTHFUL = ["ConfECE", "ConfCE"]
STRONG, WEAK = 0.8, 0.5  # how a rank correlation is put into words
SMALL_U = 0.25  # spread of U against that of the loss below which the loss decides
TWIN_LIKE = 0.1  # difference from a correlation of the twins below which it counts as theirs
NOISE_LIKE = 1.5  # root mean square of U against the twins' below which it counts as noise
MANY_TO_FEW = tuple(sorted(BINS, reverse=True))
FEWEST = min(BINS)
FLIP = error_column("ConfECE", "fix", FEWEST)
Values = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class UPart:
    """One truthful error at one bin count: the loss part, the U part and the twins' U part of every checkpoint."""

    family: str
    bins: int
    loss: Values
    u: Values
    twin_u: Values

    @property
    def bias(self) -> float:
        """Mean U as a share of the mean loss: what calibrated predictors would have near zero."""
        return _ratio(self.u.mean(), self.loss.mean())

    @property
    def times_twins(self) -> float:
        """The root mean square of U over that of the twins."""
        return _ratio(*(math.hypot(u.mean(), u.std()) for u in (self.u, self.twin_u)))

    def wide(self, u: Values) -> float:
        """The spread of U, or of the twins', over that of the loss."""
        return _ratio(u.std(), self.loss.std())

    @property
    def with_loss(self) -> float:
        """Rank correlation of U with the loss part."""
        return float(rank_correlations(np.column_stack([self.loss, self.u]))[0, 1])

    @property
    def overturned(self) -> float:
        """The share of pairs of checkpoints whose order by loss the U parts overturn."""
        return overturned_pairs(self.loss, self.loss + self.u)

    @property
    def cause(self) -> str:
        """What makes the error's correlation: a small U, noise, or miscalibration that follows the loss or does not."""
        if self.wide(self.u) <= SMALL_U:
            return "small"
        if self.times_twins <= NOISE_LIKE:
            return "noise"
        return "with_loss" if self.with_loss >= WEAK else "partly" if self.with_loss > 0.2 else "against"


def u_part(table: pd.DataFrame, family: str, bins: int) -> UPart:
    """n error = loss + U of one error over a table of checkpoints."""
    binning, error = PAPER_BINNING[family], FAMILIES[family]
    twins = table[["n_classes"]].assign(brier=table["twin_brier"], confidence_loss=table["twin_confidence_loss"])
    twin_error = table["n_test"] * table[f"twin_{error_column(family, binning, bins)}"]
    columns = (
        associated_loss(table, error),
        table[u_column(family, binning, bins)],
        twin_error - associated_loss(twins, error),
    )
    return UPart(family, bins, *(column.to_numpy(dtype=np.float64) for column in columns))


def overturned_pairs(loss: Values, error: Values) -> float:
    """The share of pairs that the loss and the error order in opposite ways, among pairs that both order."""
    sign = np.sign(loss[:, None] - loss[None, :]) * np.sign(error[:, None] - error[None, :])
    return _ratio(np.count_nonzero(sign < 0), np.count_nonzero(sign))


@dataclass(frozen=True, eq=False)
class VariantText:
    """One recalibration in one experiment: the line of all its traces together, and those of each trace."""

    words: str
    whole: Any
    each: pd.DataFrame

    @property
    def known(self) -> bool:
        """Whether the gap of any trace is known."""
        return not self.each["r_gap"].isna().all()

    def gap_left(self, kept: pd.DataFrame) -> str:
        """The gap it leaves, where that is known, and of how many traces where some lack it."""
        gap, traces, of = self.each["gap_last"].dropna().median(), len(self.each), kept["trace"].nunique()
        parts = [] if math.isnan(gap) else [f"{gap:.1f} points"]
        parts += [f"{traces} of {of} traces"] if traces < of else []
        return f" ({', '.join(parts)})" if parts else ""

    def of_all(self, family: str) -> str:
        """The correlations over all traces together."""
        values = self.whole.reindex([f"r_{error_column(family, TABLE_BINNING[family], bins)}" for bins in MANY_TO_FEW])
        return "–" if values.isna().any() else _slashes(values, 2)


@dataclass(frozen=True, eq=False)
class Experiment:
    """What is told of one experiment: its checkpoints, those after warm-up, and its part of the tables."""

    name: str
    planned: int
    table: pd.DataFrame
    kept: pd.DataFrame
    main: pd.DataFrame
    all_combinations: pd.DataFrame
    all_thresholds: pd.DataFrame
    mechanism: pd.DataFrame
    image_size: int | None = None  # where a model's name does not have its own

    @property
    def heading(self) -> str:
        return heading(self.name)

    @property
    def where(self) -> str:
        return _where(self.name)

    @property
    def caption(self) -> str:
        """What was trained, in words: network, pixels, epochs, traces and checkpoints."""
        models = sorted(self.kept["model"].unique())
        words = [models[0].partition("@")[0] if len(models) == 1 else f"{len(models)} models"]
        if self.image_size is not None:
            sizes = {int((re.findall(r"@(\d+)", model) or [self.image_size])[0]) for model in models}
            words.append(f"{' and '.join(map(str, sorted(sizes)))} pixels")
        counts = {"epochs": self.table["epoch"].max(), "traces": self.kept["trace"].nunique()}
        counts["checkpoints after warm-up"] = len(self.kept)
        return ", ".join(words + [f"{count:,} {what}" for what, count in counts.items()])

    def limits(self, family: str, bins: int) -> dict[str, tuple[float, float]]:
        """The limits of a correlation with the classification error, by traces and where known by test rows."""
        row, kinds = self.line(family, bins), {"by traces": self.name, "by test rows": f"{self.name}_rows"}
        return {words: (row[f"{key}_low"], row[f"{key}_high"]) for words, key in kinds.items() if f"{key}_low" in row}

    def certainty(self, family: str, bins: int) -> str:
        """Whether the limits leave a correlation's sign open, with the numbers."""
        limits, row = self.limits(family, bins), self.line(family, bins)
        left_open = [words for words, (low, high) in limits.items() if not (low > 0 or high < 0)]
        told = ", ".join(f"[{low:.2f}, {high:.2f}] {words}" for words, (low, high) in limits.items())
        verdict = f"open {' and '.join(left_open)}" if left_open else "certain"
        return f"{verdict} ({row[f'{self.name}_r']:.2f}, {told}; calibrated twins {row[f'{self.name}_twin_r']:.2f})"

    @property
    def open_signs(self) -> list[str]:
        """The errors that change their sign, but not so that the limits at the fewest bins exclude zero."""
        return [family for family in self.flipped if not self.certainty(family, FEWEST).startswith("certain")]

    def twins(self, family: str) -> list[float]:
        """The correlations of calibrated twins, from many bins to few."""
        return _by_error(self.main, f"{self.name}_twin_r")[family]

    @property
    def like_twins(self) -> bool:
        """Whether ConfECE's correlations are those of calibrated twins."""
        return bool(np.allclose(self.r["ConfECE"], self.twins("ConfECE"), rtol=0, atol=TWIN_LIKE))

    @cached_property
    def r(self) -> dict[str, list[float]]:
        """The correlation of each error with the classification error, from many bins to few."""
        return _by_error(self.main, f"{self.name}_r")

    @property
    def between(self) -> pd.Series[float]:
        """For each error the lowest correlation between two bin counts."""
        return self.main[self.main["item1"] != REFERENCE].groupby("error")[f"{self.name}_r"].min()

    def line(self, family: str, bins: int) -> Any:
        """The row of the table for an error at a bin count, against the classification error."""
        main, item = self.main, f"{TABLE_BINNING[family]}-{bins}"
        return main[(main["error"] == family) & (main["item1"] == REFERENCE) & (main["item2"] == item)].iloc[0]

    @property
    def flipped(self) -> list[str]:
        """The errors whose correlation changes its sign with the number of bins."""
        return [family for family in PAPER_BINNING if min(self.r[family]) < 0 < max(self.r[family])]

    @cached_property
    def parts(self) -> list[UPart]:
        return [u_part(self.kept, family, bins) for family in TRUTHFUL for bins in MANY_TO_FEW]

    @cached_property
    def order(self) -> Dominance:
        """The dominance order of the checkpoints on all losses."""
        return tc.analysis.dominance(self.kept[list(LOSSES)].to_numpy(dtype=np.float64))

    @property
    def along_chain(self) -> dict[str, list[float]]:
        """Each truthful error's correlation with the longest chain, from many bins to few."""
        measured = {family: by_bins(self.kept, family) for family in TRUTHFUL}
        return {
            family: [chain_correlation(values[bins], self.order.chain) for bins in MANY_TO_FEW]
            for family, values in measured.items()
        }

    @property
    def losses_agree(self) -> float:
        """The lowest rank correlation between two losses."""
        return float(rank_correlations(self.kept[list(LOSSES)].to_numpy(dtype=np.float64)).min())

    @property
    def beside_paper(self) -> pd.DataFrame:
        """The lines that the paper has too, those furthest apart first."""
        known = self.main[self.main[f"paper_{self.name}_r"].notna()]
        apart = (known[f"{self.name}_r"] - known[f"paper_{self.name}_r"]).abs().sort_values(ascending=False)
        return known.loc[apart.index].assign(apart=apart)

    @property
    def binnings(self) -> pd.DataFrame:
        """Correlations over equal-width and quantile bins, those furthest apart first."""
        rows = self.all_combinations[self.all_combinations["item1"] == REFERENCE]
        rows = rows.assign(**rows["item2"].str.split("-", expand=True).set_axis(["binning", "bins"], axis=1))
        wide = rows.pivot(index=["error", "bins"], columns="binning", values=f"{self.name}_r").reset_index()
        return wide.assign(apart=(wide["fix"] - wide["qua"]).abs()).sort_values("apart", ascending=False, kind="stable")

    @property
    def thresholds(self) -> list[tuple[Any, pd.DataFrame]]:
        rows = self.all_thresholds
        return list(rows[(rows["experiment"] == self.name) & (rows["item1"] == REFERENCE)].groupby("threshold"))

    @cached_property
    def variants(self) -> list[VariantText]:
        """Every recalibration that was measured."""
        rows = self.mechanism[self.mechanism["experiment"] == self.name]
        found = {key: rows[rows["recalibration"] == key] for key in VARIANTS}
        return [
            VariantText(VARIANTS[key], part[part["trace"] == ALL].iloc[0], part[part["trace"] != ALL])
            for key, part in found.items()
            if (part["trace"] == ALL).any()
        ]

    @property
    def scaled(self) -> VariantText | None:
        """What temperature scaling leaves, where the gap of a trace is known."""
        return next((v for v in self.variants if v.words == VARIANTS[TEMPERATURE] and v.known), None)

    @property
    def last(self) -> pd.DataFrame:
        """The last checkpoint of each trace whose gap is known."""
        assert self.scaled is not None
        return self.kept[self.kept["trace"].isin(self.scaled.each["trace"])].groupby("trace").last()

    @property
    def trend(self) -> str:
        """What the gap does while training lowers the classification error."""
        assert self.scaled is not None
        r = float(self.scaled.each["r_gap"].median())
        return "grows" if r <= -WEAK else "shrinks" if r >= WEAK else "shows no clear trend"


def results_text(
    run: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    kept: Mapping[str, pd.DataFrame],
    main: pd.DataFrame,
    combinations: pd.DataFrame,
    thresholds: pd.DataFrame,
    mechanism: pd.DataFrame,
) -> str:
    """The whole file."""
    found = (main, combinations, thresholds, mechanism)
    planned = {name: len(run["traces"].get(name, ())) for name in (*run["traces"], *tables)}
    size = run["settings"].get("image_size")
    experiments = [Experiment(name, planned[name], table, kept[name], *found, size) for name, table in tables.items()]
    told = [e for e in experiments if e.scaled is not None]
    flips = [e for e in experiments if "ConfECE" in e.flipped]
    measured = set(mechanism["recalibration"]) & set(RECALIBRATIONS)
    columns = {kind(name): column for name in tables if (column := f"paper_{name}_r") in main}
    published = {name: _by_error(main, column)["ConfECE"] for name, column in columns.items()}
    text = _template().render(
        run=run,
        experiments=experiments,
        flips=flips,
        certain=[e for e in flips if "ConfECE" not in e.open_signs],
        told=told,
        growing=[e for e in told if e.trend == "grows"],
        repaired=[e for e in flips or experiments if e.variants] if measured else [],
        mechanism=[e for e in experiments if e.variants and kind(e.name) == WITHIN],
        planned=_planned(planned, kept),
        published=", ".join(f"{_slashes(values, 2)} {_where(name)}" for name, values in published.items()),
        settings=", ".join(f"{key.replace('_', ' ')} {_setting(value)}" for key, value in run["settings"].items()),
        lowest=lambda families: min(_lowest(e.r, families) for e in experiments),
        papers_setting={"image_size": 224, "learning_rate": 0.001, "epochs": 100}.items() <= run["settings"].items(),
        by_rows=any(column.endswith("_rows_low") for column in map(str, main)),
        splits=SPLITS,
        correlations=to_markdown(main, list(tables)).rstrip(),
    )
    joined = re.sub(r"(?<!\n)\n(?!\n|\||- |\Z)", " ", text)
    return re.sub(r"\n{3,}", "\n\n", re.sub(" +$", "", joined, flags=re.MULTILINE)).rstrip() + "\n"


def _template() -> Any:
    jinja2 = require("jinja2", "reproduction")
    made = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    made.filters |= {"f": format, "verdict": _verdict, "slashes": _slashes, "lowest_of": _lowest}
    made.globals |= {"TRUTHFUL": list(TRUTHFUL), "NOT_TRUTHFUL": NOT_TRUTHFUL, "SCORES": list(SCORES)}
    made.globals |= {"SHOWN": ("ConfECE", "ConfCE_corr", "LinCE_cw", "score_ConfCE_corr"), "REFERENCE": REFERENCE}
    made.globals |= {"bins": " / ".join(map(str, MANY_TO_FEW)), "fewest": FEWEST, "flip_column": f"r_{FLIP}"}
    return made.from_string(files("reproduction").joinpath("data/RESULTS.md.j2").read_text(encoding="utf-8"))


def _by_error(main: pd.DataFrame, column: str) -> dict[str, list[float]]:
    """Correlations with the classification error, from many bins to few."""
    lines = main[main["item1"] == REFERENCE].groupby("error", sort=False)
    return {str(error): values.tolist() for error, values in lines[column]}


def _where(name: str) -> str:
    """An experiment as the end of a sentence: "at learning rate 0.02"."""
    words = heading(name).rpartition(", ")[2].lower()
    return f"at {words}" if words.startswith("learning rate") else words


def _planned(planned: Mapping[str, int], kept: Mapping[str, pd.DataFrame]) -> str:
    counts = {name: kept[name]["trace"].nunique() if name in kept else 0 for name in planned}
    return ", ".join(f"{n} of {max(planned[name], n)} planned {_where(name)}" for name, n in counts.items())


def _setting(value: Any) -> str:
    return ", ".join(f"{part} in {name}" for name, part in value.items()) if isinstance(value, dict) else str(value)


def _lowest(values: Mapping[str, Sequence[float]], families: Iterable[str]) -> float:
    return min(min(values[family]) for family in families)


def _verdict(lowest: float) -> str:
    if lowest >= STRONG:
        return f"holds (all at least {STRONG:g})"
    return f"{'holds in part' if lowest >= WEAK else 'does not hold throughout'} (lowest {lowest:.2f})"


def _ratio(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else math.nan


def _slashes(values: Iterable[float], digits: int = 3) -> str:
    return " / ".join(f"{value:.{digits}f}" for value in values)
