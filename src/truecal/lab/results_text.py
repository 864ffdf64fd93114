"""RESULTS.md: which of the paper's claims hold in a run and why, in words, from the computed numbers alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import truecal as tc
from truecal.evaluation.ranking import chain_correlation
from truecal.lab.checkpoints import (
    BINNINGS,
    BINS,
    FAMILIES,
    LOSSES,
    PAPER_BINNING,
    RECALIBRATIONS,
    SCORES,
    TABLE_BINNING,
    TRUTHFUL,
    associated_loss,
    error_column,
    u_column,
)
from truecal.lab.correlations import RANKING_PAIRS, REFERENCE, THRESHOLDS, rank_correlations, to_markdown
from truecal.lab.mechanism import ALL, TEMPERATURE, TWIN
from truecal.lab.traces import CROSS, WITHIN, heading, kind

if TYPE_CHECKING:
    import pandas as pd

NOT_TRUTHFUL = ("ConfECE", "ConfCE")
STRONG, WEAK = 0.8, 0.5  # how a rank correlation is put into words
SMALL_U = 0.25  # spread of U against that of the loss below which the loss decides
NOISE_LIKE = 1.5  # root mean square of U against the twins' below which it counts as noise
VARIANTS = {TEMPERATURE: "temperature scaling"} | RECALIBRATIONS | {TWIN: "calibrated twins"}
MANY_TO_FEW = tuple(sorted(BINS, reverse=True))


@dataclass(frozen=True)
class UPart:
    """One truthful error at one bin count over all checkpoints: its loss part, its U part, and the twins' U part."""

    family: str
    bins: int
    mean_loss: float
    spread_loss: float
    mean_u: float
    spread_u: float
    twin_mean_u: float
    twin_spread_u: float
    with_loss: float  # rank correlation of U with the loss part
    overturned: float  # share of pairs of checkpoints whose order by loss the U parts overturn

    @property
    def bias(self) -> float:
        """Mean U as a share of the mean loss: what calibrated predictors would have near zero."""
        return _ratio(self.mean_u, self.mean_loss)


def u_part(table: pd.DataFrame, family: str, bins: int) -> UPart:
    """Summarise n error = loss + U for one error over a table of checkpoints."""
    binning = PAPER_BINNING[family]
    loss = np.asarray(associated_loss(table, FAMILIES[family]), dtype=np.float64)
    u = table[u_column(family, binning, bins)].to_numpy(dtype=np.float64)
    twin_error = table[f"twin_{error_column(family, binning, bins)}"]
    twins = table[["n_test", "n_classes"]].assign(
        brier=table["twin_brier"], confidence_loss=table["twin_confidence_loss"]
    )
    twin_u = np.asarray(table["n_test"] * twin_error - associated_loss(twins, FAMILIES[family]), dtype=np.float64)
    return UPart(
        family,
        bins,
        float(loss.mean()),
        float(loss.std()),
        float(u.mean()),
        float(u.std()),
        float(twin_u.mean()),
        float(twin_u.std()),
        float(rank_correlations(np.column_stack([loss, u]))[0, 1]),
        overturned_pairs(loss, loss + u),
    )


def overturned_pairs(loss: np.ndarray[Any, Any], error: np.ndarray[Any, Any]) -> float:
    """The share of pairs that the loss and the error order in opposite ways, among pairs that both order."""
    sign = np.sign(loss[:, None] - loss[None, :]) * np.sign(error[:, None] - error[None, :])
    decided = np.count_nonzero(sign)
    return float(np.count_nonzero(sign < 0) / decided) if decided else math.nan


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
    parts = [f"# {run['title']}", in_short(names, kept, main, mechanism)]
    parts += ["## What was run", *run["notes"], _settings(run), _counts(run, tables, kept)]
    for name in names:
        parts += [f"## {heading(name)}", *_claims(name, kept[name], main, run)]
    parts += _mechanism(mechanism, names)
    parts += [
        "## Rank correlations",
        "Spearman correlation on the test split, the binning as in the paper's table (ConfECE equal-width, the others "
        "quantile). ± is the paper's 1.96 (1 − r²)/√(N − 1), which takes checkpoints for independent; they are not, so "
        'the brackets give a 95% cluster bootstrap over traces. "If calibrated" is the correlation of the same '
        "reports with labels drawn from them: what sampling noise alone leaves.",
        to_markdown(main, names).rstrip(),
        "All combinations of norm and binning: `tables/combinations.csv`.",
        _binning_words(combinations, names),
        "## Other warm-up thresholds",
        "Correlation of the classification error with each error when checkpoints with a validation error above the "
        f"threshold are dropped (this run's own: {run['warm_up']:g}; all pairs in `tables/thresholds.csv`).",
        *(_threshold_grid(thresholds, name) for name in names),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def in_short(
    names: Sequence[str], kept: Mapping[str, pd.DataFrame], main: pd.DataFrame, mechanism: pd.DataFrame
) -> str:
    """For those who read no further: which claims hold, where the flip appears and why, what the score does."""

    def lowest(*families: str) -> float:
        return min(min(_against_reference(name, main, family)) for name in names for family in families)

    def each(family: str) -> str:
        digits = 3 if family in SCORES else 2
        return ", ".join(f"{_short(name)} {_list(_against_reference(name, main, family), digits)}" for name in names)

    flips = [_short(name) for name in names if _flipped(_against_reference(name, main, "ConfECE"))]
    flip = f"changes sign with the number of bins ({', '.join(flips)})" if flips else "keeps its sign"
    why = [words for words in (_gap_words(name, kept[name], mechanism) for name in names) if words]
    traces = ", ".join(f"{_short(name)} {kept[name]['trace'].nunique()}" for name in names)
    lines = [
        f"In short, by rank correlation with the classification error at {_bin_list()} bins (traces: {traces}):",
        f"- **The score** (loss + gap², lower is better): {_verdict(lowest(*SCORES))}. Confidence: "
        f"{each('score_ConfCE_corr')}; classwise: {each('score_LinCE_cw')}.",
        f"- **The paper's truthful errors**: LinCE_cw {_verdict(lowest('LinCE_cw'))}: {each('LinCE_cw')}. ConfCE_corr "
        f"{_verdict(lowest('ConfCE_corr'))}: {each('ConfCE_corr')}.",
        f"- **The usual ConfECE** {flip}: {each('ConfECE')}.",
        f"- **Why**, inside a trace, after temperature scaling: {'; '.join(why)}." if why else "",
        _repair_words(names, mechanism),
    ]
    return "\n".join(filter(None, lines))


def _short(name: str) -> str:
    return name.partition("-")[2] or ("across" if kind(name) == CROSS else name)


def _flipped(values: Sequence[float]) -> bool:
    return min(values) < 0 < max(values)


def _gap_words(name: str, table: pd.DataFrame, mechanism: pd.DataFrame) -> str:
    """How the gap goes along with the error inside the traces of an experiment."""
    rows = mechanism[(mechanism["experiment"] == name) & (mechanism["recalibration"] == TEMPERATURE)]
    rows = rows[rows["trace"] != ALL]
    if rows.empty:
        return ""
    r = float(rows["r_gap"].median())
    temperature = table[table["trace"].isin(rows["trace"])].groupby("trace").last()["temperature"].median()
    how = "grows as the error falls" if r <= -WEAK else "shrinks with the error" if r >= WEAK else "hardly follows it"
    return (
        f"{_short(name)}: the gap of the confidence {how} (median r(gap, error) {r:+.2f}; at the end "
        f"{rows['gap_last'].median():.1f} points, temperature {temperature:.2f})"
    )


def _repair_words(names: Sequence[str], mechanism: pd.DataFrame) -> str:
    """What stronger recalibrations do to the correlation at the fewest bins, where the flip is clearest."""
    column = f"r_{error_column('ConfECE', 'fix', min(BINS))}"
    words = []
    for name in names:
        rows = mechanism[(mechanism["experiment"] == name) & (mechanism["trace"] == ALL)]
        values = dict(zip(rows["recalibration"], rows[column], strict=True)) if len(rows) else {}
        if set(values) & set(RECALIBRATIONS):
            words.append(f"{_short(name)}: " + ", ".join(f"{VARIANTS[key]} {r:+.2f}" for key, r in values.items()))
    return (
        f"- **Repaired?** ConfECE at {min(BINS)} bins after other recalibrations. {'; '.join(words)}." if words else ""
    )


def _mechanism(mechanism: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """The section on gap and classification error inside traces, with every recalibration."""
    within = [name for name in names if kind(name) == WITHIN and (mechanism["experiment"] == name).any()]
    if not within:
        return []
    head = ["experiment", "recalibration", "traces", "r(gap, error), median", "lowest to highest", "gap at the end"]
    errors = ("ConfECE", "ConfCE_corr", "LinCE_cw", "score_ConfCE_corr")
    head += [f"{family}, all" for family in errors]
    lines = [head, ["---"] * 2 + ["---:"] * (len(head) - 2)]
    for name in within:
        for key, words in VARIANTS.items():
            rows = mechanism[(mechanism["experiment"] == name) & (mechanism["recalibration"] == key)]
            whole, each = rows[rows["trace"] == ALL], rows[rows["trace"] != ALL]
            if whole.empty:
                continue
            r, last = each["r_gap"], each["gap_last"]
            known = not r.isna().all()
            cells = [name, words, str(len(each))]
            cells += [f"{r.median():+.2f}", f"{r.min():+.2f} to {r.max():+.2f}"] if known else ["–", "–"]
            cells += [f"{last.median():.1f}" if known else "–"]
            lines.append(cells + [_of_all(whole, family) for family in errors])
    return [
        "## Gap and classification error inside a trace",
        "r(gap, error) is the rank correlation, over the checkpoints of one trace after warm-up, of the gap of the "
        "confidence (points, debiased, at the automatic number of bins, or 20 in tables that lack it) with the "
        "classification error: below zero, training lowers the error while calibration gets worse. Beside it the "
        "correlations over all traces together "
        f"at {_bin_list()} bins. Each recalibration is fitted on the validation images and measured on the test "
        "images; calibrated twins are the temperature-scaled reports with labels drawn from them, that is, calibration "
        "repaired in full. Traces one by one: `tables/mechanism.csv`; drawn in `figures/along_traces.png`.",
        _rows(lines),
    ]


def _of_all(whole: pd.DataFrame, family: str) -> str:
    columns = [f"r_{error_column(family, TABLE_BINNING[family], bins)}" for bins in MANY_TO_FEW]
    if any(column not in whole or math.isnan(whole[column].iloc[0]) for column in columns):
        return "–"
    return _list([float(whole[column].iloc[0]) for column in columns], 2)


def _settings(run: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        return ", ".join(f"{part} in {name}" for name, part in value.items()) if isinstance(value, dict) else str(value)

    settings = ", ".join(f"{key.replace('_', ' ')} {text(value)}" for key, value in run["settings"].items())
    return f"Preset `{run['preset']}`: {settings}."


def _counts(run: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], kept: Mapping[str, pd.DataFrame]) -> str:
    lines = [
        f"Warm-up, fixed in the preset before the run: checkpoints with a validation error above {run['warm_up']:g} "
        "are left out of figures, tables and words."
    ]
    for name, table in tables.items():
        planned = len(run["traces"].get(name, []))
        traces, used = table["trace"].nunique(), kept[name]
        error = used[REFERENCE]
        missing = f" ({planned - traces} planned traces are missing)" if planned > traces else ""
        lines.append(
            f"- {heading(name)}: {traces} traces{missing}, {len(table)} checkpoints, of which {len(used)} from "
            f"{used['trace'].nunique()} traces are kept; their test classification error runs from {error.min():.3f} "
            f"to {error.max():.3f}."
        )
    return "\n".join(lines)


def _claims(name: str, table: pd.DataFrame, main: pd.DataFrame, run: Mapping[str, Any]) -> list[str]:
    parts = [u_part(table, family, bins) for family in TRUTHFUL for bins in MANY_TO_FEW]
    return [
        _near_calibrated(parts),
        _u_table(parts),
        _dominance(table),
        _robust(name, main),
        _flips(name, main),
        _between_bin_counts(name, main),
        _score(name, main),
        _why(name, parts, main),
        _losses_agree(table),
        _against_paper(name, main) if run.get("beside_paper") else "",
    ]


def _near_calibrated(parts: Sequence[UPart]) -> str:
    few = [part for part in parts if part.bins == min(BINS)]
    words = "; ".join(
        f"{part.family} at {part.bins} bins: mean U is {part.bias:+.1%} of the mean loss, and {_times(part)}"
        for part in few
    )
    close = all(abs(part.bias) < 0.1 for part in few)
    verdict = "holds" if close else "does not hold"
    return (
        f"**After temperature scaling the checkpoints are nearly calibrated: {verdict}** (read as |mean U| under 10% "
        f"of the loss at the fewest bins, where bias adds up most). {words}."
    )


def _times(part: UPart) -> str:
    rms, twin = math.hypot(part.mean_u, part.spread_u), math.hypot(part.twin_mean_u, part.twin_spread_u)
    times = f"its root mean square is {_ratio(rms, twin):.1f} times that of calibrated twins"
    return f"{times} (same reports, labels drawn from them)"


def _u_table(parts: Sequence[UPart]) -> str:
    head = (
        "| Error | bins | loss, mean | loss, spread | U, mean | U, spread | U of twins, mean | U of twins, spread "
        "| r(U, loss) | pairs overturned |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )
    lines = [
        f"| {p.family} | {p.bins} | {p.mean_loss:.4g} | {p.spread_loss:.3g} | {p.mean_u:+.3g} | {p.spread_u:.3g} | "
        f"{p.twin_mean_u:+.3g} | {p.twin_spread_u:.3g} | {p.with_loss:+.2f} | {p.overturned:.1%} |"
        for p in parts
    ]
    return (
        "n · error = loss + U. The loss part says how good a predictor is, U how far from calibrated; spread is the "
        "standard deviation over checkpoints; a pair is overturned when U reverses its order by loss.\n\n"
        + "\n".join([head, *lines])
    )


def _dominance(table: pd.DataFrame) -> str:
    found = tc.dominance(table[list(LOSSES)].to_numpy(dtype=np.float64))
    words, lowest = [], math.inf
    for family in TRUTHFUL:
        values = []
        for bins in MANY_TO_FEW:
            column = table[error_column(family, PAPER_BINNING[family], bins)].to_numpy(dtype=np.float64)
            values.append(chain_correlation(column, found.chain)[1])
        lowest = min(lowest, *values)
        words.append(f"{family} {_list(values)}")
    return (
        f"**Truthful errors keep the dominance order: {_verdict(lowest)}.** The longest chain on all five losses has "
        f"{len(found.chain)} of {len(table)} checkpoints ({found.comparable:.0%} of all pairs are comparable); rank "
        f"correlation with it at {_bin_list()} bins: {'; '.join(words)}."
    )


def _robust(name: str, main: pd.DataFrame) -> str:
    words, lowest = [], math.inf
    for family in TRUTHFUL:
        values = _against_reference(name, main, family)
        lowest = min(lowest, *values)
        words.append(f"{family} {_list(values)}")
    return (
        f"**Truthful errors follow predictive quality whatever the bins: {_verdict(lowest)}.** Correlation with the "
        f"classification error at {_bin_list()} bins: {'; '.join(words)}."
    )


def _flips(name: str, main: pd.DataFrame) -> str:
    words, flipped = [], []
    for family in NOT_TRUTHFUL:
        values = _against_reference(name, main, family)
        words.append(f"{family} {_list(values)}")
        if _flipped(values):
            flipped.append(family)
    verdict = f"holds for {' and '.join(flipped)}" if flipped else "not seen here: no sign changes"
    return (
        f"**Errors that are not truthful flip with the number of bins: {verdict}.** Correlation with the "
        f"classification error at {_bin_list()} bins: {'; '.join(words)}."
    )


def _between_bin_counts(name: str, main: pd.DataFrame) -> str:
    lowest = {}
    for family in (*TRUTHFUL, *NOT_TRUTHFUL):
        lowest[family] = float(_between(name, main, family).min())
    better = min(lowest[family] for family in TRUTHFUL) > max(lowest[family] for family in NOT_TRUTHFUL)
    words = ", ".join(f"{family} {value:.3f}" for family, value in lowest.items())
    return (
        f"**Truthful errors agree with themselves across bin counts better than the others: "
        f"{'holds' if better else 'does not hold for all'}.** Lowest correlation between two bin counts: {words}."
    )


def _score(name: str, main: pd.DataFrame) -> str:
    values = {family: _against_reference(name, main, family) for family in SCORES}
    between = min(float(_between(name, main, family).min()) for family in SCORES)
    words = "; ".join(f"{family} {_list(of)}" for family, of in values.items())
    return (
        f"**The score follows predictive quality whatever the bins: {_verdict(min(map(min, values.values())))}.** "
        f"Correlation with the classification error at {_bin_list()} bins: {words}; lowest correlation between two "
        f"bin counts {between:.3f}."
    )


def _between(name: str, main: pd.DataFrame, family: str) -> pd.Series[float]:
    return main[(main["error"] == family) & (main["item1"] != REFERENCE)][f"{name}_r"]


def _why(name: str, parts: Sequence[UPart], main: pd.DataFrame) -> str:
    lines = [
        "**Why: U against the gap in loss.** Two checkpoints keep their order by loss where the gap in loss exceeds "
        "the difference of their U parts."
    ]
    for part in parts:
        row = _line(main, part.family, part.bins)
        measured, twin = float(row[f"{name}_r"]), float(row[f"{name}_twin_r"])
        lines.append(f"- {part.family}, {part.bins} bins: {_reason(part, measured, twin)}")
    return "\n".join(lines)


def _reason(part: UPart, measured: float, twin: float) -> str:
    """What made the correlation: a small U, sampling noise, or miscalibration that does or does not follow the loss."""
    ratio, noise = _ratio(part.spread_u, part.spread_loss), _ratio(part.twin_spread_u, part.spread_loss)
    first = (
        f"U spreads {ratio:.2f} times as wide as the loss ({noise:.2f} for calibrated twins); r with the "
        f"classification error {measured:.3f} ({twin:.3f} for the twins)."
    )
    if ratio <= SMALL_U:
        return f"{first} U is small against the gaps in loss, so the error ranks by loss."
    if math.hypot(part.mean_u, part.spread_u) <= NOISE_LIKE * math.hypot(part.twin_mean_u, part.twin_spread_u):
        return f"{first} U is about what sampling noise gives exactly calibrated predictors: the noise blurs the order."
    if part.with_loss >= WEAK:
        return (
            f"{first} U is miscalibration, and it grows with the loss (r = {part.with_loss:+.2f}): the error follows "
            "the loss because worse predictors are also further from calibrated here, not because U is small."
        )
    follows = "follows the loss only in part" if part.with_loss > 0.2 else "does not follow the loss"
    return (
        f"{first} U is miscalibration that {follows} (r = {part.with_loss:+.2f}) and overturns "
        f"{part.overturned:.0%} of the pairs: the theorem's condition, bias small against the gap in loss, fails."
    )


def _losses_agree(table: pd.DataFrame) -> str:
    r = rank_correlations(table[list(LOSSES)].to_numpy(dtype=np.float64))
    lowest = float(r[np.triu_indices(len(LOSSES), 1)].min())
    return f"The five losses rank the checkpoints alike: lowest rank correlation between two of them {lowest:.3f}."


def _against_paper(name: str, main: pd.DataFrame) -> str:
    main = main[main[f"paper_{name}_r"].notna()]
    difference = (main[f"{name}_r"] - main[f"paper_{name}_r"]).abs()
    close = int((difference <= 0.1).sum())
    worst = main.loc[difference.sort_values(ascending=False).index[:3]]
    words = "; ".join(
        f"{row['error']}, {row['item1'].replace('_', ' ')} and {row['item2']}: {row[f'{name}_r']:.3f} here, "
        f"{row[f'paper_{name}_r']:.3f} there"
        for _, row in worst.iterrows()
    )
    return (
        f"**Beside the paper's table**: {close} of {len(main)} correlations lie within 0.1 of the paper's. Furthest "
        f"apart: {words}. The runs differ in network, training and warm-up threshold (the paper does not state its "
        "own), so agreement was not to be expected in every entry, and nothing was tuned to come closer. "
        f"{_miscalibration(name, main)}".rstrip()
    )


def _miscalibration(name: str, main: pd.DataFrame) -> str:
    """Few bins show miscalibration and little of the loss, so they tell how miscalibration went along with the loss."""
    row = _line(main, "ConfECE", min(BINS))
    here, there, twin = (float(row[column]) for column in (f"{name}_r", f"paper_{name}_r", f"{name}_twin_r"))
    if abs(here - there) <= 0.3:
        return ""
    direction = "falls along with the classification error" if here > there else "does not fall as much"
    return (
        f"ConfECE at {min(BINS)} bins tells most of the difference: it holds little of the loss (calibrated twins: "
        f"r = {twin:.3f}), so its r says how miscalibration goes along with the classification error. Here it is "
        f"{here:.3f}, in the paper {there:.3f}: in this run miscalibration itself {direction}; in the paper's traces, "
        f"by the same reading, {'it does not' if here > there else 'it falls more'}. "
        "The same difference enters every error at few bins through U."
    )


def _binning_words(combinations: pd.DataFrame, names: Sequence[str]) -> str:
    lines = []
    for name in names:
        rows = combinations[combinations["item1"] == REFERENCE].copy()
        rows["bins"] = rows["item2"].str.split("-").str[1]
        rows["binning"] = rows["item2"].str.split("-").str[0]
        wide = rows.pivot(index=["error", "bins"], columns="binning", values=f"{name}_r")
        gap = (wide["fix"] - wide["qua"]).abs()
        family, bins = gap.index[int(np.argmax(gap.to_numpy()))]
        fixed, quantile = (float(wide.loc[(family, bins), kind]) for kind in BINNINGS)
        lines.append(
            f"- {heading(name)}: equal-width and quantile bins differ most for {family} at {bins} bins "
            f"(r with the classification error {fixed:.3f} and {quantile:.3f}); median difference {gap.median():.3f}."
        )
    return "\n".join(lines)


def _threshold_grid(thresholds: pd.DataFrame, name: str) -> str:
    rows = thresholds[(thresholds["experiment"] == name) & (thresholds["item1"] == REFERENCE)]
    pairs = [pair for pair in RANKING_PAIRS if pair.first is None]
    head = ["threshold", "N", *(f"{pair.family} {pair.items[1]}" for pair in pairs)]
    lines = [head, ["---:"] * len(head)]
    for threshold in THRESHOLDS:
        part = rows[rows["threshold"] == threshold]
        values = [part[(part["error"] == p.family) & (part["item2"] == p.items[1])]["r"].iloc[0] for p in pairs]
        cells = ["n/a" if math.isnan(value) else f"{value:.2f}" for value in values]
        lines.append([f"{threshold:g}", str(int(part["n"].iloc[0])), *cells])
    return f"{heading(name)}:\n\n{_rows(lines)}"


def _rows(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _line(main: pd.DataFrame, family: str, bins: int) -> Any:
    item = f"{TABLE_BINNING[family]}-{bins}"
    return main[(main["error"] == family) & (main["item1"] == REFERENCE) & (main["item2"] == item)].iloc[0]


def _against_reference(name: str, main: pd.DataFrame, family: str) -> list[float]:
    return [float(_line(main, family, bins)[f"{name}_r"]) for bins in MANY_TO_FEW]


def _verdict(lowest: float) -> str:
    if lowest >= STRONG:
        return f"holds (all at least {STRONG:g})"
    if lowest >= WEAK:
        return f"holds in part (lowest {lowest:.2f})"
    return f"does not hold throughout (lowest {lowest:.2f})"


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _list(values: Sequence[float], digits: int = 3) -> str:
    return " / ".join(f"{value:.{digits}f}" for value in values)


def _bin_list() -> str:
    return " / ".join(str(bins) for bins in MANY_TO_FEW)
