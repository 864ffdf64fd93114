"""Comparisons that the tests of the report share: a ranking that ECE turns over, and names that would like to run."""

from __future__ import annotations

from functools import cache

import numpy as np

import truecal as tc
from truecal.results.comparison import Comparison
from truecal.scale.stream import compare_streams

HOSTILE = (
    "<script>window.hit=1</script>.npz",
    "</script><img src=x onerror=window.hit=1>",
    "{{7*7}}",
    "\"'\\`${window.hit=1}",
    "long" * 1500,
    "שלום\u202eevil\u2028",
    "lone\udcffsurrogate\x00",
    "<!--",
)


def probabilities(rng, y, k, skill, temperature):
    logits = rng.normal(size=(len(y), k))
    logits[np.arange(len(y)), y] += skill
    logits *= skill / temperature
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


@cache
def flipping() -> Comparison:
    """Five models of different skill and temperature; ECE and the truthful errors disagree, and ECE flips."""
    rng = np.random.default_rng(7)
    k, n = 6, 400
    y = rng.integers(0, k, n)
    kinds = {"sharp": (2.4, 0.6), "honest": (2.3, 1.0), "timid": (2.2, 1.6), "weak": (1.2, 1.0), "bold": (1.4, 0.5)}
    models = {name: probabilities(rng, y, k, *kind) for name, kind in kinds.items()}
    errors = ("classwise", "classwise_l1", "classwise_two_bin", "confidence", "confidence_l1", "full")
    return tc.compare(y, models, n_bins=(2, 10, 40, 150), errors=errors, n_resamples=39)


@cache
def hostile() -> Comparison:
    rng = np.random.default_rng(8)
    k, n = 5, 120
    y = rng.integers(0, k, n)
    models = {name: probabilities(rng, y, k, 1 + i / 4, 1.0) for i, name in enumerate(HOSTILE)}
    errors = ("classwise", "confidence", "confidence_l1")
    by = np.where(np.arange(n) % 2, HOSTILE[1], HOSTILE[0])
    return tc.compare(y, models, n_bins=(2, 10, 40), errors=errors, n_resamples=9, by=by)


@cache
def streamed() -> Comparison:
    """Two models whose rows are gone: neither a test nor bands."""
    rng = np.random.default_rng(9)
    y = rng.integers(0, 4, 400)
    streams = {}
    for name, temperature in (("a", 1.0), ("b", 0.4)):
        streams[name] = tc.stream(("classwise", "confidence", "confidence_l1"), n_bins=(5, 20), edges="uniform")
        streams[name].update(y, probabilities(rng, y, 4, 1.5, temperature))
    return compare_streams(streams, 0.95)
