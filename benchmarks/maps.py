"""Every recalibration map beside the package that people would use for it: processor seconds of fit and prediction.

    python -m benchmarks.maps            # 2,000 and 20,000 rows
    python -m benchmarks.maps --small    # 2,000 rows

Peers that are not installed are left out and named: pip install probmetrics pytorch-minimize splinecalib cir-model
venn-abers betacal netcal uncertainty-calibration. Each fits on the rows and predicts them; one thread; the least of
several runs. Ratios above 1: truecal is slower.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from truecal import recalibration as maps

from .calibration import table

Run = Callable[[np.ndarray, np.ndarray], Any]
SIZES = (2_000, 20_000)
CLASSES = 10


def draw(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Over-confident probabilities with a wrong level per class, and labels."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(n, k))
    y = (z / 1.5 + rng.gumbel(size=z.shape)).argmax(axis=1)
    e = np.exp(z - np.linspace(0, 1, k))
    return e / e.sum(axis=1, keepdims=True), y


def probmetrics(name: str) -> Run:
    from probmetrics.calibrators import factory

    return lambda p, y: factory.get_calibrator(name).fit(p, y).predict_proba(p)


def probmetrics_affine(name: str) -> Run:
    from probmetrics.calibrators import logistic

    return lambda p, y: getattr(logistic, name)().fit(p, y).predict_proba(p)


def scikit_learn(name: str) -> Run:
    from sklearn import calibration

    made = getattr(calibration, name)
    return lambda p, y: made().fit(np.log(p), y).predict(np.log(p))


def platt() -> Run:
    from sklearn.calibration import _SigmoidCalibration

    return lambda p, y: _SigmoidCalibration().fit(_log_odds(p), y).predict(_log_odds(p))


def logistic_regression(features: Callable[[np.ndarray], np.ndarray]) -> Run:
    from sklearn.linear_model import LogisticRegression

    def run(p: np.ndarray, y: np.ndarray) -> Any:
        x = features(p)
        return LogisticRegression(max_iter=1000).fit(x, y).predict_proba(x)

    return run


def isotonic() -> Run:
    from sklearn.isotonic import IsotonicRegression

    def run(p: np.ndarray, y: np.ndarray) -> None:
        for r in range(p.shape[1]):
            IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p[:, r], y == r).predict(p[:, r])

    return run


def betacal() -> Run:
    from betacal import BetaCalibration

    return lambda p, y: BetaCalibration("abm").fit(p[:, 1:], y).predict(p[:, 1:])


def splinecalib() -> Run:
    from splinecalib import SplineCalib

    def run(p: np.ndarray, y: np.ndarray) -> None:
        made = SplineCalib()
        made.fit(p[:, 1], y)
        made.calibrate(p[:, 1])

    return run


def cir_model() -> Run:
    from cir_model import CenteredIsotonicRegression

    def run(p: np.ndarray, y: np.ndarray) -> None:
        CenteredIsotonicRegression().fit(p[:, 1], y.astype(float)).transform(p[:, 1])

    return run


def venn_abers() -> Run:
    from venn_abers import VennAbers

    def run(p: np.ndarray, y: np.ndarray) -> None:
        made = VennAbers()
        made.fit(p, y)
        made.predict_proba(p)

    return run


def netcal() -> Run:
    from netcal.binning import HistogramBinning

    return lambda p, y: HistogramBinning(15).fit(p, y).transform(p)


def uncertainty_calibration() -> Run:
    from calibration import PlattBinnerMarginalCalibrator

    def run(p: np.ndarray, y: np.ndarray) -> None:
        made = PlattBinnerMarginalCalibrator(len(p), num_bins=15)
        made.train_calibration(p, y)
        made.calibrate(p)

    return run


def _log_odds(p: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(p[:, 1] / p[:, 0]))


def _parabola(p: np.ndarray) -> np.ndarray:
    return np.column_stack([_log_odds(p), np.square(_log_odds(p))])


PEERS: dict[str, tuple[int, str, Callable[[], Run]]] = {
    "TemperatureScaling": (CLASSES, "scikit-learn", lambda: scikit_learn("_TemperatureScaling")),
    "EnsembleTemperatureScaling": (CLASSES, "probmetrics", lambda: _ensemble()),
    "VectorScaling": (CLASSES, "probmetrics", lambda: probmetrics_affine("VectorScalingCalibrator")),
    "MatrixScaling": (CLASSES, "probmetrics", lambda: probmetrics_affine("MatrixScalingCalibrator")),
    "DirichletScaling": (CLASSES, "scikit-learn", lambda: logistic_regression(np.log)),
    "StructuredVectorScaling": (CLASSES, "probmetrics", lambda: probmetrics("svs")),
    "StructuredMatrixScaling": (CLASSES, "probmetrics", lambda: probmetrics("sms")),
    "IsotonicOneVsRest": (CLASSES, "scikit-learn", isotonic),
    "HistogramBinning": (CLASSES, "netcal", netcal),
    "ScalingBinning": (CLASSES, "uncertainty-calibration", uncertainty_calibration),
    "CenteredIsotonic": (2, "cir-model", cir_model),
    "PlattScaling": (2, "scikit-learn", platt),
    "BetaScaling": (2, "betacal", betacal),
    "QuadraticScaling": (2, "scikit-learn", lambda: logistic_regression(_parabola)),
    "SplineScaling": (2, "splinecalib", splinecalib),
    "VennAbers": (2, "venn-abers", venn_abers),
}
"""Number of classes, package and its run; scikit-learn's logistic regression where no package has the map."""


def _ensemble() -> Run:
    from probmetrics.calibrators.temperature_scaling import ETSCalibrator

    return lambda p, y: ETSCalibrator().fit(p, y).predict_proba(p)


def seconds(run: Run, p: np.ndarray, y: np.ndarray) -> float:
    """The least processor time of up to seven runs, about ten seconds in all."""
    found: list[float] = []
    while len(found) < 7 and (len(found) < 2 or sum(found) < 10):
        start = time.process_time()
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            run(p, y)
        found.append(time.process_time() - start)
    return min(found)


def main(sizes: tuple[int, ...]) -> None:
    warnings.simplefilter("ignore")
    rows = []
    for name, (k, package, peer) in PEERS.items():
        made = getattr(maps, name)
        try:
            other = peer()
        except ImportError as missing:
            print(f"{name}: {package} is left out: {missing}")
            continue
        row = [f"`{name}`", str(k), package]
        for n in sizes:
            p, y = draw(n, k)
            ours = seconds(lambda p, y, made=made: made.from_probabilities().fit(p, y).predict_proba(p), p, y)
            theirs = seconds(other, p, y)
            row += [f"{1000 * ours:.3g}", f"{1000 * theirs:.3g}", f"{ours / theirs:.2f}"]
        rows.append(row)
        print(" | ".join(row), flush=True)
    print()
    heads = [head for n in sizes for head in (f"{n:,} rows: truecal, ms", "peer, ms", "ratio")]
    table(("map", "classes", "peer", *heads), rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="only the smaller size")
    chosen = parser.parse_args()
    with threadpool_limits(1):
        main(SIZES[:1] if chosen.small else SIZES)
