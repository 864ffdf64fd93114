"""RESULTS.md: which of the paper's claims hold in a run and why, from the computed numbers alone.

The sentences are in data/sentences.toml; here are the facts in them and the choice of what is said.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

import truecal as tc
from truecal.evaluation.ranking import chain_correlation
from truecal.lab.checkpoints import (
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
from truecal.lab.correlations import REFERENCE, markdown_table, rank_correlations, to_markdown
from truecal.lab.mechanism import ALL, TEMPERATURE, VARIANTS
from truecal.lab.traces import WITHIN, heading, kind

if TYPE_CHECKING:
    import pandas as pd

NOT_TRUTHFUL = ("ConfECE", "ConfCE")
STRONG, WEAK = 0.8, 0.5  # how a rank correlation is put into words
SMALL_U = 0.25  # spread of U against that of the loss below which the loss decides
NOISE_LIKE = 1.5  # root mean square of U against the twins' below which it counts as noise
MANY_TO_FEW = tuple(sorted(BINS, reverse=True))
FEWEST = min(BINS)
BIN_LIST = " / ".join(map(str, MANY_TO_FEW))
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
        if _ratio(self.u.std(), self.loss.std()) <= SMALL_U:
            return "small"
        if _size(self.u) <= NOISE_LIKE * _size(self.twin_u):
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
    names = list(tables)
    lines = main[main["item1"] == REFERENCE].groupby("error", sort=False)
    r: dict[str, Any] = {name: lines[f"{name}_r"].agg(list).to_dict() for name in names}  # from many bins to few
    paper: dict[str, Any] = {
        name: lines[f"paper_{name}_r"].agg(list).to_dict() for name in names if f"paper_{name}_r" in main
    }
    parts = [f"# {run['title']}", _in_short(run, r, paper, kept, mechanism)]
    parts += ["## What was run", *run["notes"], _settings(run), _counts(run, tables, kept)]
    for name in names:
        parts += [f"## {heading(name)}", *_claims(name, kept[name], main, r[name])]
        if run.get("beside_paper"):
            parts.append(_against_paper(name, main))
    parts += _mechanism(mechanism, names)
    parts += ["## Rank correlations", _say("correlations"), to_markdown(main, names).rstrip()]
    parts += ["All combinations of norm and binning: `tables/combinations.csv`.", _binnings(combinations, names)]
    parts += ["## Other warm-up thresholds", _say("thresholds", warm_up=run["warm_up"])]
    parts += [_threshold_grid(thresholds, name) for name in names]
    return "\n\n".join(filter(None, parts)) + "\n"


@cache
def _sentences() -> dict[str, str]:
    return tomllib.loads(files("truecal.lab").joinpath("data/sentences.toml").read_text(encoding="utf-8"))


def _say(key: str, /, **facts: Any) -> str:
    """A paragraph of the file with the facts put in, beside those that are always the same."""
    return " ".join(_sentences()[key].split()).format(bins=BIN_LIST, fewest=FEWEST, **facts)


def _in_short(
    run: Mapping[str, Any],
    r: Mapping[str, dict[str, list[float]]],
    paper: Mapping[str, dict[str, list[float]]],
    kept: Mapping[str, pd.DataFrame],
    mechanism: pd.DataFrame,
) -> str:
    """For those who read no further: which claims hold, where the flip appears and why, what the score does."""

    def lowest(*families: str) -> float:
        return min(min(values[family]) for values in r.values() for family in families)

    flips = [name for name, values in r.items() if _flipped(values["ConfECE"])]
    where = " and ".join(map(_where, flips))
    published = _at_each({kind(name): values["ConfECE"] for name, values in paper.items()})
    truthful = {f"verdict_{family}": _verdict(lowest(family)) for family in TRUTHFUL}
    truthful |= {family: _at_each({name: values[family] for name, values in r.items()}) for family in TRUTHFUL}
    usual = {
        "flip": f"changes sign with the number of bins {where}" if flips else "keeps its sign",
        "ConfECE": _at_each({name: values["ConfECE"] for name, values in r.items()}),
        "paper": f"; in the paper {published}" if published else "",
    }
    lines = [
        _say("in_short", traces=_planned(run, kept)),
        _say("short_score", verdict=_verdict(lowest(*SCORES)), lowest=lowest(*SCORES)),
        _say("short_truthful", **truthful),
        _say("short_usual", **usual),
        _short_why(flips, kept, mechanism),
        _short_repaired(flips or list(kept), kept, mechanism),
    ]
    return "\n".join(filter(None, lines))


def _where(name: str) -> str:
    """An experiment as the end of a sentence: "at learning rate 0.02"."""
    words = heading(name).rpartition(", ")[2].lower()
    return f"at {words}" if words.startswith("learning rate") else words


def _at_each(values: Mapping[str, Sequence[float]]) -> str:
    return ", ".join(f"{_list(numbers, 2)} {_where(name)}" for name, numbers in values.items())


def _planned(run: Mapping[str, Any], kept: Mapping[str, pd.DataFrame]) -> str:
    counts = {name: kept[name]["trace"].nunique() if name in kept else 0 for name in (*run["traces"], *kept)}
    of = {name: max(len(run["traces"].get(name, ())), count) for name, count in counts.items()}
    return ", ".join(f"{count} of {of[name]} planned {_where(name)}" for name, count in counts.items())


def _short_why(flips: Sequence[str], kept: Mapping[str, pd.DataFrame], mechanism: pd.DataFrame) -> str:
    """How the gap goes along with the error inside the traces of each experiment, and whether that is the flip."""
    words, grows = [], []
    for name, table in kept.items():
        rows = _variant(mechanism, name, TEMPERATURE)[1]
        if rows.empty or rows["r_gap"].isna().all():
            continue
        r, last = float(rows["r_gap"].median()), table[table["trace"].isin(rows["trace"])].groupby("trace").last()
        how = "grows as" if r <= -WEAK else "shrinks as" if r >= WEAK else "shows no clear trend as"
        grows += [name] if r <= -WEAK else []
        loss = f", training loss {last['train_loss'].median():.2g}" if "train_loss" in last else ""
        facts = {"r": r, "gap": rows["gap_last"].median(), "temperature": last["temperature"].median(), "loss": loss}
        words.append(_say("short_gap", name=_where(name), how=how, **facts))
    where = f"{_say('short_where')} " if flips and flips == grows else ""
    head = "Why" if flips else "The gap"
    return _say("short_why", head=head, where=where, why="; ".join(words)) if words else ""


def _short_repaired(names: Sequence[str], kept: Mapping[str, pd.DataFrame], mechanism: pd.DataFrame) -> str:
    """What other recalibrations do to the correlation at the fewest bins, where the flip is clearest."""
    if not set(mechanism["recalibration"]) & set(RECALIBRATIONS):
        return ""
    column, words = f"r_{error_column('ConfECE', 'fix', FEWEST)}", []
    for name in names:
        found = {key: _variant(mechanism, name, key) for key in VARIANTS}
        each = [
            f"{VARIANTS[key]} {whole[column].iloc[0]:+.2f}{_gap_left(rows, kept[name])}"
            for key, (whole, rows) in found.items()
            if not whole.empty
        ]
        words += [f"{_where(name)} {', '.join(each)}"] if each else []
    return _say("short_repaired", words="; ".join(words))


def _gap_left(rows: pd.DataFrame, table: pd.DataFrame) -> str:
    """The gap a recalibration leaves, where it is known, and of how many traces where some lack it."""
    gap, traces, of = rows["gap_last"].dropna().median(), len(rows), table["trace"].nunique()
    parts = [] if math.isnan(gap) else [f"{gap:.1f} points"]
    parts += [f"{traces} of {of} traces"] if traces < of else []
    return f" ({', '.join(parts)})" if parts else ""


def _variant(mechanism: pd.DataFrame, name: str, recalibration: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The line of all traces together, and those of each trace."""
    rows = mechanism[(mechanism["experiment"] == name) & (mechanism["recalibration"] == recalibration)]
    return rows[rows["trace"] == ALL], rows[rows["trace"] != ALL]


def _mechanism(mechanism: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """The section on gap and classification error inside traces, with every recalibration."""
    errors = ("ConfECE", "ConfCE_corr", "LinCE_cw", "score_ConfCE_corr")
    head = ["experiment", "recalibration", "traces", "r(gap, error), median", "lowest to highest", "gap at the end"]
    lines = []
    for name in names if not mechanism.empty else ():
        for key, words in VARIANTS.items() if kind(name) == WITHIN else ():
            whole, each = _variant(mechanism, name, key)
            if whole.empty:
                continue
            r, gap = each["r_gap"], ["–", "–", "–"]
            if not r.isna().all():
                gap = [f"{r.median():+.2f}", f"{r.min():+.2f} to {r.max():+.2f}", f"{each['gap_last'].median():.1f}"]
            lines.append([name, words, str(len(each)), *gap, *(_of_all(whole, family) for family in errors)])
    if not lines:
        return []
    table = markdown_table([*head, *(f"{family}, all" for family in errors)], lines, words=2)
    return ["## Gap and classification error inside a trace", _say("mechanism"), table]


def _of_all(whole: pd.DataFrame, family: str) -> str:
    columns = [f"r_{error_column(family, TABLE_BINNING[family], bins)}" for bins in MANY_TO_FEW]
    values = whole.reindex(columns=columns).iloc[0]
    return "–" if values.isna().any() else _list(values, 2)


def _settings(run: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        return ", ".join(f"{part} in {name}" for name, part in value.items()) if isinstance(value, dict) else str(value)

    settings = ", ".join(f"{key.replace('_', ' ')} {text(value)}" for key, value in run["settings"].items())
    return _say("settings", preset=run["preset"], settings=settings)


def _counts(run: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], kept: Mapping[str, pd.DataFrame]) -> str:
    lines = [_say("warm_up", warm_up=run["warm_up"])]
    for name, table in tables.items():
        traces, used = table["trace"].nunique(), kept[name]
        missing = len(run["traces"].get(name, [])) - traces
        note = f" ({missing} planned traces are missing)" if missing > 0 else ""
        facts = {"heading": heading(name), "traces": f"{traces} traces{note}", "checkpoints": len(table)}
        facts |= {"kept": len(used), "kept_traces": used["trace"].nunique()}
        lines.append(_say("counts", **facts, error=used[REFERENCE].agg(["min", "max"])))
    return "\n".join(lines)


def _claims(name: str, table: pd.DataFrame, main: pd.DataFrame, r: Mapping[str, list[float]]) -> list[str]:
    parts = [u_part(table, family, bins) for family in TRUTHFUL for bins in MANY_TO_FEW]
    between = main[main["item1"] != REFERENCE].groupby("error")[f"{name}_r"].min()
    flipped = [family for family in NOT_TRUTHFUL if _flipped(r[family])]
    flips = f"holds for {' and '.join(flipped)}" if flipped else "not seen here: no sign changes"
    return [
        _near_calibrated(parts),
        _u_table(parts),
        _dominance(table),
        _say("robust", **_correlated(r, TRUTHFUL)),
        _say("flips", **_correlated(r, NOT_TRUTHFUL) | {"verdict": flips}),
        _between_bin_counts(between),
        _say("score", **_correlated(r, SCORES), between=min(between[family] for family in SCORES)),
        _why(name, parts, main),
        _losses_agree(table),
    ]


def _correlated(values: Mapping[str, Sequence[float]], families: Iterable[str]) -> dict[str, Any]:
    """The facts of a sentence on correlations at every bin count: the numbers of each family, and the verdict."""
    words = "; ".join(f"{family} {_list(values[family])}" for family in families)
    lowest = min(min(values[family]) for family in families)
    return {"verdict": _verdict(lowest), "words": words}


def _near_calibrated(parts: Sequence[UPart]) -> str:
    few = [part for part in parts if part.bins == FEWEST]
    words = [_say("bias", part=part, times=_ratio(_size(part.u), _size(part.twin_u))) for part in few]
    verdict = "holds" if all(abs(part.bias) < 0.1 for part in few) else "does not hold"
    return _say("nearly_calibrated", verdict=verdict, words="; ".join(words))


def _u_table(parts: Sequence[UPart]) -> str:
    head = ["Error", "bins", "loss, mean", "loss, spread", "U, mean", "U, spread", "U of twins, mean"]
    head += ["U of twins, spread", "r(U, loss)", "pairs overturned"]
    lines = []
    for p in parts:
        cells = [p.family, str(p.bins), f"{p.loss.mean():.4g}", f"{p.loss.std():.3g}"]
        cells += [f"{p.u.mean():+.3g}", f"{p.u.std():.3g}", f"{p.twin_u.mean():+.3g}", f"{p.twin_u.std():.3g}"]
        lines.append([*cells, f"{p.with_loss:+.2f}", f"{p.overturned:.1%}"])
    return f"{_say('u_table')}\n\n{markdown_table(head, lines)}"


def _dominance(table: pd.DataFrame) -> str:
    found = tc.dominance(table[list(LOSSES)].to_numpy(dtype=np.float64))
    values = {}
    for family in TRUTHFUL:
        measured = by_bins(table, family)
        values[family] = [chain_correlation(measured[bins], found.chain)[1] for bins in MANY_TO_FEW]
    facts = {"length": len(found.chain), "checkpoints": len(table), "comparable": found.comparable}
    return _say("dominance", **_correlated(values, TRUTHFUL), **facts)


def _between_bin_counts(between: pd.Series[float]) -> str:
    better = min(between[family] for family in TRUTHFUL) > max(between[family] for family in NOT_TRUTHFUL)
    words = ", ".join(f"{family} {between[family]:.3f}" for family in (*TRUTHFUL, *NOT_TRUTHFUL))
    return _say("between", verdict="holds" if better else "does not hold for all", words=words)


def _why(name: str, parts: Sequence[UPart], main: pd.DataFrame) -> str:
    lines = [_say("why")]
    for part in parts:
        row, spread = _line(main, part.family, part.bins), part.loss.std()
        facts = {"ratio": _ratio(part.u.std(), spread), "noise": _ratio(part.twin_u.std(), spread)}
        facts |= {"measured": row[f"{name}_r"], "twin": row[f"{name}_twin_r"]}
        lines.append(f"{_say('why_part', part=part, **facts)} {_say(f'why_{part.cause}', part=part)}")
    return "\n".join(lines)


def _losses_agree(table: pd.DataFrame) -> str:
    r = rank_correlations(table[list(LOSSES)].to_numpy(dtype=np.float64))
    return _say("losses_agree", lowest=r[np.triu_indices(len(LOSSES), 1)].min())


def _against_paper(name: str, main: pd.DataFrame) -> str:
    main = main[main[f"paper_{name}_r"].notna()]
    difference = (main[f"{name}_r"] - main[f"paper_{name}_r"]).abs()
    words = "; ".join(
        f"{row['error']}, {row['item1'].replace('_', ' ')} and {row['item2']}: {row[f'{name}_r']:.3f} here, "
        f"{row[f'paper_{name}_r']:.3f} there"
        for _, row in main.loc[difference.sort_values(ascending=False).index[:3]].iterrows()
    )
    said = _say("beside_paper", close=int((difference <= 0.1).sum()), lines=len(main), words=words)
    return f"{said} {_miscalibration(name, main)}".rstrip()


def _miscalibration(name: str, main: pd.DataFrame) -> str:
    """Few bins show miscalibration and little of the loss, so they tell how miscalibration went along with the loss."""
    row = _line(main, "ConfECE", FEWEST)
    here, there, twin = row[f"{name}_r"], row[f"paper_{name}_r"], row[f"{name}_twin_r"]
    if abs(here - there) <= 0.3:
        return ""
    fall, contrast = "falls along with the classification error", "it does not"
    if here < there:
        fall, contrast = "does not fall as much", "it falls more"
    return _say("miscalibration", here=here, there=there, twin=twin, fall=fall, contrast=contrast)


def _binnings(combinations: pd.DataFrame, names: Sequence[str]) -> str:
    rows = combinations[combinations["item1"] == REFERENCE]
    rows = rows.assign(**rows["item2"].str.split("-", expand=True).set_axis(["binning", "bins"], axis=1))
    lines = []
    for name in names:
        wide = rows.pivot(index=["error", "bins"], columns="binning", values=f"{name}_r")
        gap = (wide["fix"] - wide["qua"]).abs()
        most = int(np.argmax(gap.to_numpy()))
        family, bins = gap.index[most]
        facts: Any = {**wide.iloc[most], "median": gap.median()}
        lines.append(_say("binning", heading=heading(name), family=family, count=bins, **facts))
    return "\n".join(lines)


def _threshold_grid(thresholds: pd.DataFrame, name: str) -> str:
    rows = thresholds[(thresholds["experiment"] == name) & (thresholds["item1"] == REFERENCE)]
    head, lines = [], []
    for threshold, part in rows.groupby("threshold"):
        head = ["threshold", "N", *(part["error"] + " " + part["item2"])]
        cells = ["n/a" if math.isnan(r) else f"{r:.2f}" for r in part["r"]]
        lines.append([f"{threshold:g}", str(part["n"].iloc[0]), *cells])
    return f"{heading(name)}:\n\n{markdown_table(head, lines, words=0)}"


def _line(main: pd.DataFrame, family: str, bins: int) -> Any:
    item = f"{TABLE_BINNING[family]}-{bins}"
    return main[(main["error"] == family) & (main["item1"] == REFERENCE) & (main["item2"] == item)].iloc[0]


def _verdict(lowest: float) -> str:
    if lowest >= STRONG:
        return f"holds (all at least {STRONG:g})"
    return f"{'holds in part' if lowest >= WEAK else 'does not hold throughout'} (lowest {lowest:.2f})"


def _flipped(values: Sequence[float]) -> bool:
    return min(values) < 0 < max(values)


def _size(values: Values) -> float:
    """The root mean square."""
    return math.hypot(values.mean(), values.std())


def _ratio(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else math.nan


def _list(values: Iterable[float], digits: int = 3) -> str:
    return " / ".join(f"{value:.{digits}f}" for value in values)
