"""How often a monitor is wrong, and how soon it is right; the tables of docs/monitoring.md.

    python -m benchmarks.monitor false --streams 400                # the tables of the page, some minutes each
    python -m benchmarks.monitor peeking --streams 400 --picture docs/monitoring.png
    python -m benchmarks.monitor references delays --streams 100

Worlds have known chances (tests/calibration_worlds.py), seeds are fixed, and everything goes through public functions.
A monitor is looked at after every row, a test every 200 rows. Output is Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.special import expit, logit
from tests.calibration_worlds import binary, classes, labels, tempered

import truecal as tc
from truecal.render.plots.draw import COLORS

from .calibration import table

ALPHA, ROWS, LOOKS, DRAWS = 0.05, 2000, 10, 199
Rng = np.random.Generator
Stream = tuple[np.ndarray, np.ndarray]


# -- calibrated streams ------------------------------------------------------------------------------------------------


def one_probability(rng: Rng, name: str = "calibrated") -> Stream:
    p, _ = binary(name, ROWS, rng)
    return (rng.random(ROWS) < p).astype(int), p


def several_classes(rng: Rng) -> Stream:
    p, _ = classes("calibrated", ROWS, 10, rng)
    return labels(rng, p), p


def learnt_as_it_goes(rng: Rng) -> Stream:
    """Each prediction is the share of ones so far, (1 + ones)/(2 + rows), and the label is drawn from it."""
    luck, y, p, ones = rng.random(ROWS), np.zeros(ROWS, dtype=int), np.zeros(ROWS), 0
    for t in range(ROWS):
        p[t] = (1 + ones) / (2 + t)
        y[t] = luck[t] < p[t]
        ones += int(y[t])
    return y, p


WORLDS: dict[str, Callable[[Rng], Stream]] = {
    "one probability": one_probability,
    "one probability, near 0 and 1": lambda rng: one_probability(rng, "sharp calibrated"),
    "one probability, learnt from the labels before": learnt_as_it_goes,
    "ten classes": several_classes,
}


def first_alarm(stream: Stream, monitor: tc.Monitor | None = None) -> float:
    """The number of rows at which the alarm comes, infinite if it never does."""
    found = (monitor or tc.monitor(alpha=ALPHA)).update(*stream)
    return np.inf if found.since is None else found.since + 1


def share(alarms: np.ndarray, rows: float) -> str:
    return f"{np.mean(alarms <= rows):.3f}"


def false_alarms(streams: int) -> None:
    print(f"### False alarms within so many rows, {streams} calibrated streams, alpha = {ALPHA}\n")
    rows = []
    for i, (name, world) in enumerate(WORLDS.items()):
        rng = np.random.default_rng([11, i])
        alarms = np.array([first_alarm(world(rng)) for _ in range(streams)])
        rows.append([name, *(share(alarms, n) for n in (100, 500, ROWS))])
    table(("calibrated world", "100", "500", f"{ROWS:,}"), rows)


# -- looking often at a test that is meant for one look ----------------------------------------------------------------


def test_alarms(stream: Stream, level: float) -> float:
    """The rows at which `calibration_test` of all rows so far first has p ≤ level, looked at every 200 rows."""
    y, p = stream
    for n in range(ROWS // LOOKS, len(y) + 1, ROWS // LOOKS):
        if tc.calibration_test(y[:n], p[:n], n_resamples=DRAWS).pvalue <= level:
            return float(n)
    return np.inf


def draw_alarms(alarms: dict[str, np.ndarray], path: Path) -> None:
    """The share of streams with an alarm so far, over the rows."""
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    ax = figure.subplots()
    rows = np.arange(ROWS + 1)
    for (name, found), color in zip(alarms.items(), (COLORS[1], COLORS[4], COLORS[0]), strict=True):
        ax.plot(rows, [np.mean(found <= n) for n in rows], color=color, label=name, linewidth=2)
    ax.axhline(ALPHA, color="#666666", linestyle="--", linewidth=1, label="alpha")
    ax.set(xlabel="rows", ylabel="share of calibrated models with an alarm", ylim=(0, None), xlim=(0, ROWS))
    ax.legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=110)


def peeking(streams: int, picture: Path | None = None) -> None:
    print(f"### False alarms, calibrated, one probability a row, {streams} streams\n")
    rng = np.random.default_rng(12)
    found = []
    for _ in range(streams):
        stream = one_probability(rng)
        tests = (test_alarms(stream, level) for level in (ALPHA, ALPHA / LOOKS))
        found.append([*tests, first_alarm(stream)])
    alarms = np.array(found).T
    names = ("test at .05, every 200 rows", "test at .05/10, every 200 rows", "monitor, every row")
    if picture is not None:
        draw_alarms(dict(zip(names, alarms, strict=True)), picture)
    looks = (200, 600, 1000, ROWS)
    table(
        ("within rows", *map(str, looks)),
        [[n, *(share(a, x) for x in looks)] for n, a in zip(names, alarms, strict=True)],
    )


# -- references --------------------------------------------------------------------------------------------------------


def references(streams: int) -> None:
    print(f"### False alarms of a model that was and stays over-confident (temperature 1.4), {streams} streams\n")
    rows = []
    for size in (200, 1000):
        rng = np.random.default_rng([13, size])
        found = []
        for _ in range(streams):
            y, p = tempered(1.4, size + 2 * ROWS, 3, rng)
            reference, stream = (y[:size], p[:size]), (y[size:], p[size:])
            scaling = tc.TemperatureScaling().fit(np.log(reference[1]), reference[0])
            mapped = scaling.predict_proba(np.log(stream[1]))
            monitors = (tc.monitor(alpha=ALPHA, reference=reference), None, None)
            streams_of = (stream, (stream[0], mapped), stream)
            found.append([first_alarm(s, m) for s, m in zip(streams_of, monitors, strict=True)])
        names = ("reference=", "a temperature fitted once", "no reference")
        for name, alarms in zip(names, np.array(found).T, strict=True):
            rows.append([f"{size:,}", name, *(share(alarms, n) for n in (500, ROWS, 2 * ROWS))])
    table(("reference rows", "", "500", f"{ROWS:,}", f"{2 * ROWS:,}"), rows)


# -- delays ------------------------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "temperature 1.5": lambda u: expit(logit(u) / 1.5),
    "temperature 1.2": lambda u: expit(logit(u) / 1.2),
    "logits .4 too high": lambda u: expit(logit(u) - 0.4),
}


def delay_text(rows: np.ndarray) -> str:
    middle = np.median(rows)
    return f"{f'{middle:,.0f}' if np.isfinite(middle) else f'over {ROWS:,}'} ({np.mean(np.isfinite(rows)):.2f})"


def delays(streams: int) -> None:
    print(f"### Rows from the change to the alarm, median (share found within {ROWS:,} rows), {streams} streams\n")
    rows = []
    for i, (name, change) in enumerate(CHANGES.items()):
        for before in (0, ROWS):
            rng = np.random.default_rng([14, i, before])
            found = []
            for _ in range(streams):
                u = expit(rng.normal(0, 1.5, before + ROWS))
                chances = np.where(np.arange(len(u)) < before, u, change(u))
                stream = (rng.random(len(u)) < chances).astype(int), u
                tests = [test_alarms(stream, ALPHA / LOOKS)] if before == 0 else []
                delay = first_alarm(stream) - before
                if delay > 0:  # an alarm before the change is a false one, which the other tables count
                    found.append([delay, *tests])
            cells = [delay_text(x) for x in np.array(found).T]
            rows.append([name, f"{before:,}", *cells, *[""] * (2 - len(cells))])
    table(("change", "calibrated rows before", "monitor, every row", "test at .05/10, every 200 rows"), rows)


TABLES: dict[str, Callable[[int], None]] = {
    "false": false_alarms,
    "peeking": peeking,
    "references": references,
    "delays": delays,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help="which tables; all unless named")
    parser.add_argument("--streams", type=int, default=50, help="streams in each row of a table")
    parser.add_argument("--small", action="store_true", help="10 streams")
    parser.add_argument("--picture", type=Path, help="where to draw the table of peeking")
    options = parser.parse_args()
    streams = 10 if options.small else options.streams
    for name in options.tables or TABLES:
        if name == "peeking":
            peeking(streams, options.picture)
        else:
            TABLES[name](streams)


if __name__ == "__main__":
    main()
