"""Does an implementation give the stored values: python -m conformance module:callable --measure ece."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, cast

from conformance import TOLERANCE, Outcome, check, measures
from truecal.cli.callables import find_metric, read_options


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 where all values agree, 3 where some do not, 1 where nothing could be run."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.add_argument("callable", nargs="?", help="module:callable, or a member of tc.ERRORS")
    parser.add_argument("--measure", help="the measure that it implements; --list shows all")
    parser.add_argument("--list", action="store_true", help="show the measures and their definitions")
    parser.add_argument("--convention", default="y_true_first", choices=("y_true_first", "preds_first"))
    parser.add_argument("-k", action="append", default=[], metavar="NAME=VALUE", help="an option of the callable")
    parser.add_argument(
        "--weights", metavar="NAME", help="the keyword of its weights; without it, sets without weights"
    )
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="relative, of values of at least 1/16")
    given = parser.parse_args(arguments)
    if given.list:
        for name, about in measures().items():
            print(f"{name} ({about['aspect']}): {about['definition']}")
        return 0
    if given.callable is None or given.measure is None:
        parser.error("expected module:callable and --measure NAME, or --list")
    try:
        metric, options = find_metric(given.callable, read_options(given.k))
        outcomes = check(
            metric,
            given.measure,
            convention=cast(Any, given.convention),
            metric_options=options,
            weight_option=given.weights,
        )
    except ValueError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    for outcome in outcomes:
        print(_line(outcome, given.tolerance))
    good = sum(outcome.agrees(given.tolerance) for outcome in outcomes)
    print(f"{good} of {len(outcomes)} data sets agree with {given.measure}")
    return 0 if good == len(outcomes) else 3


def _line(outcome: Outcome, tolerance: float) -> str:
    if outcome.found is None:
        return f"raises   {outcome.set}: expected {outcome.expected:.10g}, {outcome.reason}"
    word = "agrees " if outcome.agrees(tolerance) else "DIFFERS"
    return f"{word}  {outcome.set}: expected {outcome.expected:.10g}, got {outcome.found:.10g}"


if __name__ == "__main__":
    sys.exit(main())
