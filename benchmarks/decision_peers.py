"""Expected values of other packages for decision curves and clinical measures: tests/goldens/decisions.csv.

`python -m benchmarks.decision_peers` writes them; it needs Rscript with the packages rms and riskRegression, and a
Python with dcurves and probcal, whose path is the first argument.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from decision_data import THRESHOLDS, data_sets  # noqa: E402

PEERS = """
import sys, warnings
from importlib.metadata import version
from pathlib import Path
import numpy as np, pandas as pd
import dcurves, probcal
from probcal import metrics
warnings.simplefilter("ignore")
thresholds = [float(t) for t in sys.argv[2].split(",")]
def add(tool, name, key, value):
    print(f"{tool} {version(tool)},{name},{key},{float(value)!r}")
for path in sorted(Path(sys.argv[1]).glob("*.csv")):
    data, name = pd.read_csv(path), path.stem
    y, p = data["y"].to_numpy(), data["p"].to_numpy()
    add("probcal", name, "intercept", metrics.calibration_intercept(y, p))
    add("probcal", name, "slope", metrics.calibration_slope(y, p))
    add("probcal", name, "scaled_brier", metrics.brier_skill_score(y, p))
    curve = metrics.murphy_curve(y, p, thresholds=thresholds)
    for t, value in zip(thresholds, curve.score):
        add("probcal", name, f"loss_{t}", value)
    for suffix, options in (("", {}), ("_prevalence", {"prevalence": 0.2})):
        found = dcurves.dca(data=data, outcome="y", modelnames=["p"], thresholds=thresholds, **options)
        for way in ("p", "all"):
            rows = found[found["model"] == way]
            for t, value in zip(rows["threshold"], rows["net_benefit"]):
                add("dcurves", name, f"net_benefit_{way}{suffix}_{t}", value)
"""


def main(python: str) -> None:
    """Write the data, ask every package, and keep what they give."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (y, p) in data_sets().items():
            lines = [f"{a},{float(b)!r}" for a, b in zip(y.tolist(), p, strict=True)]
            Path(folder, f"{name}.csv").write_text("\n".join(["y,p", *lines]) + "\n")
        script = str(ROOT / "benchmarks" / "decision_peers.R")
        asked = [["Rscript", script, folder], [python, "-c", PEERS, folder, ",".join(map(str, THRESHOLDS))]]
        found = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for command in asked]
    place = ROOT / "tests" / "goldens" / "decisions.csv"
    place.parent.mkdir(exist_ok=True)
    place.write_text("tool,data,name,value\n" + "".join(found))


if __name__ == "__main__":
    main(sys.argv[1])
