"""Names of rules, as `strategy=` takes them."""

from __future__ import annotations

from typing import Any

from .averages import Poisson, TwoBin
from .data import shown
from .rules import BinCounts, BinningRule, EqualWidth, Exact, Quantile, Ties, check_ties, read_bins
from .vectors import ArgmaxQuantile, KdTree

SCALAR_STRATEGIES: dict[str, type[BinningRule]] = {
    "quantile": Quantile,
    "uniform": EqualWidth,
    "two_bin": TwoBin,
    "poisson": Poisson,
    "exact": Exact,
}
VECTOR_STRATEGIES: dict[str, type[BinningRule]] = {
    "argmax": ArgmaxQuantile,
    "kd": KdTree,
    "exact": Exact,
}


def read_rule(
    strategy: Any,
    n_bins: BinCounts | None,
    ties: Ties,
    *,
    names: dict[str, type[BinningRule]] = SCALAR_STRATEGIES,
) -> BinningRule:
    """The rule behind a strategy name, or the rule object itself; an option without a meaning there raises."""
    check_ties(ties)
    if isinstance(strategy, BinningRule):
        if n_bins is not None:
            raise ValueError(
                f"n_bins={shown(n_bins)} cannot be used: strategy is the rule {shown(strategy)}, which has its own"
            )
        if ties != "auto":
            raise ValueError(
                f"ties={shown(ties)} cannot be used: strategy is the rule {shown(strategy)}; set ties on the rule"
            )
        return strategy
    if not isinstance(strategy, str) or strategy not in names:
        known = ", ".join(map(repr, names))
        raise ValueError(f"strategy must be one of {known} or a rule object, got {shown(strategy)}")
    kind = names[strategy]
    options: dict[str, Any] = {}
    if n_bins is not None:
        if kind.n_bins is None:
            raise ValueError(f"n_bins={shown(n_bins)} cannot be used: strategy={shown(strategy)} has no bin count")
        options["n_bins"] = read_bins(n_bins)
    if ties != "auto":
        if not hasattr(kind, "ties"):
            raise ValueError(f"ties={shown(ties)} cannot be used: strategy={shown(strategy)} has no ties to break")
        options["ties"] = ties
    return kind(**options)
