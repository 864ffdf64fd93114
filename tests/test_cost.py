"""What a call on a small sample may cost, whatever its options: processor time and memory, or a refusal in one line.

The limits are for each model of at most 200 rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

SECONDS, MEGABYTES = 2.0, 500
CALLS = """
import json, resource, sys, time, warnings
import numpy as np
import truecal as tc

warnings.simplefilter("ignore")
rng = np.random.default_rng(int(sys.argv[1]))
pick = lambda *options: options[int(rng.integers(len(options)))]
tc.compare([0, 1] * 9, {"a": [0.2, 0.7] * 9, "b": [0.4] * 18}, n_resamples=19)  # loads what is imported later
FUNCTIONS = {
    "classwise_error": ("n_bins", "strategy"),
    "ece": (),
    "score": (),
    "gap": ("level", "weights", "n_bins"),
    "calibration_test": ("level", "weights", "n_resamples"),
    "brier": ("weights",),
    "cross_entropy": ("weights",),
    "evaluate": ("n_bins", "level", "weights", "n_resamples"),
    "compare": ("n_bins", "level", "weights"),
}
for _ in range(int(sys.argv[2])):
    name = pick(*FUNCTIONS)
    models = 2 if name == "compare" else 1
    n, k = int(pick(1, 2, 20, 200)), int(pick(2, 3, 50, 1000, 5000))
    p = rng.dirichlet(np.full(k, pick(0.1, 1.0)), n)
    options = {
        "n_bins": pick(1, 15, 10**8, (2, 5, 50), range(1, 200)),
        "strategy": pick("quantile", "uniform"),
        "level": pick(0.5, 0.95, 0.999, 0.999999),
        "weights": rng.random(n) + 0.1,
        "n_resamples": pick(19, 999, 10**5, 10**6, 10**9),
    }
    options = {key: options[key] for key in FUNCTIONS[name] if rng.random() < 0.5}
    if "weights" in options:
        options["sample_weight"] = options.pop("weights")
    if options.get("n_resamples") == 10**5:
        p = p[:, :3] / p[:, :3].sum(axis=1, keepdims=True)
    y, k = rng.integers(0, p.shape[1], n), p.shape[1]
    if name == "compare":
        p = {str(i): rng.dirichlet(np.ones(p.shape[1]), n) for i in range(models)}
    shown = {key: str(value)[:40] for key, value in options.items() if key != "sample_weight"}
    before, took = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, float("inf")
    for _ in range(3):  # the least: a busy machine takes longer over the same pages
        began = time.process_time()
        try:
            getattr(tc, name)(y, p, **options)
            said = "measured"
        except ValueError as error:
            said = str(error)
        took = min(took, time.process_time() - began)
        if took < models:
            break
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps([name, n, k, shown, took / models, held / 1e3, said]))
"""


def costs(seed: int, cases: int) -> list[list[Any]]:
    command = [sys.executable, "-c", CALLS, str(seed), str(cases)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform == "win32", reason="there is no count of the memory of a process")
@pytest.mark.parametrize("seed", range(3))
def test_random_options_on_a_small_sample_cost_little(seed: int) -> None:
    found = costs(seed, 40)
    assert len(found) == 40
    assert [case for case in found if case[4] > SECONDS or case[5] > MEGABYTES] == []
