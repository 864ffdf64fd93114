"""How often conclusions are wrong in worlds where the right one is known; the rates of results/conclusions.

    python -m benchmarks.conclusions                      # all of them, some ten minutes
    python -m benchmarks.conclusions directions power     # some of them
    python -m benchmarks.conclusions --samples 40         # fewer samples

Worlds and shares are those of tests/conclusion_worlds.py; seeds are fixed. Output is Markdown, and the newer tables are
kept with their numbers of samples in results/conclusions/*.csv. A share p of N samples has a standard error of
√(p(1 − p)/N). With `--code before` a run of older code keeps its rows beside those of the newer.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Iterable
from pathlib import Path

from tests import conclusion_worlds as worlds
from tests import promise_worlds as promises

from .calibration import table

FOLDER = Path(__file__).parent.parent / "results" / "conclusions"
CODE = "now"


def share(x: float) -> str:
    return f"{x:.3f}".removeprefix("0")


def kept(name: str, title: str, heads: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table, and keep it as a file."""
    heads, rows = list(heads), [list(row) for row in rows]
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / f"{name}.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([heads, *rows])
    print(f"### {title}\n")
    table(heads, [list(map(str, row)) for row in rows])


def compared(name: str, title: str, heads: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """`kept` with a first column that says which code made the rows; those of other code remain."""
    before: list[list[object]] = []
    if (path := FOLDER / f"{name}.csv").exists():
        with open(path, newline="") as file:
            before = [list(row) for row in csv.reader(file) if row[0] not in ("code", CODE)]
    kept(name, title, ["code", *heads], sorted([*before, *([CODE, *row] for row in rows)], key=lambda row: str(row[0])))


def rated(x: float, samples: int) -> list[str]:
    """A share and its standard error."""
    return [f"{x:.3f}", f"{(max(0.0, x * (1 - x)) / max(1, samples)) ** 0.5:.3f}"]


def directions(samples: int) -> None:
    print(
        "### Directions of one probability per row: shares called too high or too low, and over- or under-confident\n"
    )
    rows = []
    for t, shift, name in ((1.0, 0.0, "calibrated"), (1.6, 0.0, "T 1.6"), (2.0, 0.0, "T 2"), (3.0, 0.0, "T 3")):
        for n in (300, 1000):
            level, spread = worlds.directions(t, n, samples, shift)
            rows.append([name, f"{n:,}", share(level), share(spread)])
    for n in (300, 1000):
        level, spread = worlds.directions(1.0, n, samples, 0.4)
        rows.append(["logits shifted by .4", f"{n:,}", share(level), share(spread)])
    table(("world", "n", "level named", "spread named"), rows)


def subgroups(samples: int) -> None:
    print("### Thirty calibrated subgroups of 60 rows: some is called not calibrated, some is given a direction\n")
    rejected, named = worlds.subgroups(30, 60, max(20, samples // 6))
    table(("not calibrated", "direction"), [[share(rejected), share(named)]])


def cross_validation(samples: int) -> None:
    print("### Cross-validated base rates, n = 200: called not calibrated, and gap above 0\n")
    rows = []
    for folds in (5, 10, 20, 200):
        rejected, off = worlds.base_rates(folds, 200, max(20, samples // (10 if folds == 200 else 3)))
        rows.append(["leave-one-out" if folds == 200 else f"{folds} folds", share(rejected), share(off)])
    table(("", "not calibrated", "gap above 0"), rows)


def cross_entropy(samples: int) -> None:
    print("### 95% intervals of the cross-entropy: coverage, mean width\n")
    rows = []
    for world in worlds.CROSS_ENTROPY:
        for n in (100, 300, 1000):
            held, width = worlds.cross_entropy(world, n, 2 * samples)
            rows.append([world, f"{n:,}", share(held), f"{width:.3f}"])
    table(("world", "n", "held", "width"), rows)


def selection(samples: int) -> None:
    print("### Choice of a recalibration map: expected Brier score above that of the best one\n")
    rows = []
    for k, n in ((3, 300), (10, 500)):
        for world in worlds.MISCALIBRATED:
            found = worlds.regret(world, n, k, max(10, samples // 12))
            rows.append([f"{k} classes, n = {n}, {world}", *(f"{x:.4f}" for x in found)])
    table(("world", "chosen", "by n·error at 15 bins"), rows)


def harm(samples: int) -> None:
    rows = []
    for name, map_ in worlds.MAPS.items():
        for t in (1.0, 2.0):
            for n in (50, 200, 1000):
                worse, gain, guarded, left = worlds.harm(map_, n, t, samples)
                rows.append(
                    [name, f"T {t:g}", n, *(f"{x:.3f}" for x in (worse, guarded, gain, left)), f"{n}; 18", samples]
                )
    heads = ("map", "world", "n", "worse", "worse, guarded", "gain", "gain, guarded", "seed", "samples")
    title = "Maps of calibrated and over-confident reports: shares worse in log loss, mean gain in Brier score × 1000"
    kept("harm", title, heads, rows)


def same_order(samples: int) -> None:
    rows = [
        [world, 2000, *(f"{x:.3f}" for x in worlds.same_order(world, 2000, samples)), f"{i}; 2000; 1", samples]
        for i, world in enumerate(worlds.PAIRS)
    ]
    heads = ("world", "n", "interval holds rho", "applies", "does not apply", "wrong", "seed", "samples")
    kept("same-order", "The theorem of approximate order at 5, 20 and 200 bins: shares of answers", heads, rows)


def power(samples: int) -> None:
    print("### Shares rejected at level .05, n = 500, 199 draws\n")
    rows = [[world, *map(share, worlds.power(world, 500, 2 * samples))] for world in worlds.POWER]
    table(("world", "calibration_test", "Hosmer-Lemeshow, 10 bins"), rows)


def flips(samples: int) -> None:
    print("### Shares of pairs of models that change places between 5, 20 and 2000 bins (at most 2n/5)\n")
    sizes = ((500, max(10, samples // 4)), (5000, max(5, samples // 12)))
    rows = [[f"{n:,}", *map(share, worlds.flips(n, some))] for n, some in sizes]
    table(("n", "ECE", "score"), rows)
    gaps = ", ".join(f"{gap:.2f}" for gap in worlds.classwise_gaps())
    print(f"Classwise gap of an over-confident model of 100 classes at 5, 20 and 100 bins: {gaps} points.\n")


def agreement(samples: int) -> None:
    rows = []
    for world in worlds.AGREEMENT:
        for n in (60, 300):
            before, after = worlds.agreement(world, n, samples)
            rows += [
                [world, n, which, *(f"{x:.3f}" for x in found), f"{n}; 5", samples]
                for which, found in (("interval alone", before), ("with the test", after))
            ]
    heads = ("world", "n", "lower end", "rejected, 0 inside", "not rejected, 0 outside", "coverage", "mean")
    heads += ("seed", "samples")
    kept("agreement", "Test and interval: shares that disagree, coverage and mean of the lower end", heads, rows)


def tolerance(samples: int) -> None:
    rows = [
        [f"T {t:g}", n, *(f"{x:.3f}" for x in worlds.tolerance(t, n, samples)), f"{n}; 9", samples]
        for t in (1.0, 1.8)
        for n in (20, 50, 100, 500, 5000)
    ]
    heads = ("world", "n", "passes", "fails", "undecided", "seed", "samples")
    kept("tolerance", "A tolerance of 3 points: the three answers", heads, rows)


def in_time(samples: int) -> None:
    rows = []
    for name in worlds.IN_TIME:
        for n in (500, 2000):
            for h in (1, 5, 10, 20):
                level, power = (worlds.in_time(name, h, n, t, samples) for t in (1.0, 1.6))
                every = (level[0], level[1], power[1], level[2], level[3])
                rows.append([name, n, h, *(f"{x:.3f}" for x in every), f"{h}; {n}; 17", samples])
    heads = ("world", "n", "overlap", "rejected, rows as independent", "rejected", "rejected, temperature 1.6")
    heads += ("interval holds 0, rows as independent", "interval holds 0", "seed", "samples")
    kept(
        "in-time",
        "Calibrated forecasts h rows ahead: shares rejected, and intervals of the gap that hold 0",
        heads,
        rows,
    )


def clustered_segments(samples: int) -> None:
    rows = []
    for name in promises.CLUSTERED:
        for off in (0.0,) if "rare" in name else (0.0, 0.2):
            rows.append([name, 100 * off, *rated(promises.clustered_segments(name, samples, off), samples), 5, samples])
    heads = ("world", "one segment is off by, points", "some segment is significant", "se", "seed", "samples")
    compared("segments-of-clusters", "Segments with groups: some is significant", heads, rows)


def sharp_segments(samples: int) -> None:
    rows = []
    for said, true in promises.SHARP:
        held, width = promises.sharp_segments(said, true, samples)
        rows.append([said, true, *rated(held, samples), f"{width:.2f}", 6, samples])
    heads = ("prediction", "chance", "joint coverage", "se", "mean width in points", "seed", "samples")
    compared("segments-sharp", "Segments: all intervals hold their gaps", heads, rows)


def changes(samples: int) -> None:
    rows = []
    for first, second in ((500, 500), (2000, 500), (500, 2000)):
        found = promises.change(first, second, 1.8, samples)
        shares = [each for name, x in found.items() if "median" not in name for each in rated(x, samples)]
        rows.append([first, second, *shares, f"{found['rows off, median']:.0f}", f"{first}; {second}; 31", samples])
    heads = ("rows of day 1", "rows of day 2", "alarms", "se", "interval holds the change", "se")
    heads += ("advises a temperature within 20%", "se", "rows off, median", "seed", "samples")
    compared("monitor-change", "Monitor: day 2 is 1.8 times over-confident", heads, rows)


def gates(samples: int) -> None:
    rows = []
    for name in promises.GATES:
        for risk in (0.01, 0.05, 0.2):
            for n in (100, 300, 2000):
                broken, coverage, best, known = promises.gates(name, n, risk, samples)
                rows.append([name, risk, n, *rated(broken, samples), *(f"{x:.3f}" for x in (coverage, best, known))])
                rows[-1] += [f"{n}; {round(100 * risk)}; 3", samples]
    heads = ("world", "risk", "n", "promise broken", "se", "mean coverage", "best coverage", "best single test")
    compared("gates", "Gates: broken promises and coverage", (*heads, "seed", "samples"), rows)


def gate_plans(samples: int) -> None:
    rows = []
    for number in (7, 10, 13):
        above, largest = promises.gate_plans(number, samples)
        rows.append([number, f"{above:.3f}", f"{largest:.3f}", f"{number}; 47", samples])
    heads = ("rows", "plans above delta", "largest probability / delta", "seed", "samples")
    kept(
        "gate-plans", "Random plans of tests: exact probability of a broken promise, worst of 440 patterns", heads, rows
    )


def error_intervals(samples: int) -> None:
    rows = []
    for t in (1.0, 1.6, 2.0, 3.0):
        for n in (60, 300, 2000):
            rows.append([f"T {t:g}", n, *rated(promises.error_intervals(t, n, samples), samples)])
            rows[-1] += [f"{n}; {round(10 * t)}; 41", samples]
    heads = ("world", "n", "coverage", "se", "seed", "samples")
    compared("error-intervals", "95% intervals of the raw error", heads, rows)


def few_rows_differ(samples: int) -> None:
    rows = []
    for differ in (1, 2, 5, 20, 200):
        rows.append([differ, *rated(promises.few_rows_differ(differ, samples), samples), f"{differ}; 43", samples])
    heads = ("rows that differ", "one is called closer to calibrated", "se", "seed", "samples")
    compared("few-rows-differ", "Two models as far off, in few of 1,000 rows", heads, rows)


def planned_power(samples: int) -> None:
    rows = []
    for shape in worlds.SHAPES:
        for gap in (5, 10):
            n, power = worlds.planned_power(shape, gap, samples)
            rows.append([shape, gap, n, *rated(power, samples), f"{gap}; 23", samples])
    heads = ("shape", "gap, points", "rows_needed", "power, .8 wanted", "se", "seed", "samples")
    compared("rows-needed", "Power with the rows that rows_needed gives", heads, rows)


def number_forecasts(samples: int) -> None:
    rows = []
    for name in promises.FORECASTS:
        for n in (60, 300):
            found = promises.forecasts(name, n, samples)
            shares = [each for x in found.values() for each in rated(x, samples)]
            rows.append([name, n, *shares, f"{n}; 61", samples])
    heads = [head for kind in found for head in (kind, "se")]
    kept("forecasts", "Quantiles and ensembles: shares rejected", ("forecast", "n", *heads, "seed", "samples"), rows)


TABLES = {
    f.__name__.replace("_", "-"): f
    for f in (
        directions,
        subgroups,
        cross_validation,
        cross_entropy,
        selection,
        harm,
        same_order,
        power,
        flips,
        agreement,
        tolerance,
        in_time,
        clustered_segments,
        sharp_segments,
        changes,
        gates,
        gate_plans,
        error_intervals,
        few_rows_differ,
        planned_power,
        number_forecasts,
    )
}


def main(chosen: Iterable[str], samples: int) -> None:
    warnings.simplefilter("ignore")
    for name in chosen:
        TABLES[name](samples)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], default=[])
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--code", default=CODE, help="what the rows of this run are called in the files")
    given = parser.parse_args()
    CODE = given.code
    main(given.tables or TABLES, given.samples)
