"""Which metrics are audited: each as the few lines with which its library's documentation calls it.

The lines define `metric(y, p)`, with numpy as np. They are what is run, and what the page prints: nobody has to trust a
wrapper that is not shown. Options are the library's defaults unless the name of the row says another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BinaryForm = Literal["auto", "matrix", "column"]
OutcomeKind = Literal["classes", "ordered", "labels", "numbers"]


@dataclass(frozen=True)
class Audited:
    """One row of the table."""

    library: str
    name: str
    what: str
    """What it computes, in a few words."""
    code: str
    """The definition of `metric(y, p)`; where bins can be counted it takes `n_bins` as well."""
    classes: tuple[int, ...] = (2, 3)
    binary: BinaryForm = "column"
    """How two classes come: one probability a row, unless the documentation wants a matrix."""
    outcomes: OutcomeKind = "classes"
    """What the classes of a world are to the metric: classes, ordered ones, sets of labels, or numbers."""
    one_bin: Literal["", "positive", "top"] = ""
    """Of what the value with a single bin should be |mean prediction − frequency|: the positive or the top class."""
    bug: str = ""
    """What is a mistake of this function and not a property of its measure: then there is no verdict on the measure."""


BINARY = (2,)
_ECE = "Σ share of a bin · |frequency − mean prediction|"


def _functions(
    library: str,
    module: str,
    rows: dict[str, tuple[str, str]],
    *,
    order: str = "y, p",
    classes: tuple[int, ...] = BINARY,
) -> tuple[Audited, ...]:
    """Plain functions of labels and probabilities: name: (options or what to take of the result, what it is)."""
    return tuple(
        Audited(library, name, what, _function(module, call, order), classes) for name, (call, what) in rows.items()
    )


def _function(module: str, call: str, order: str) -> str:
    """`call` with {} for the arguments, such as "abs(spiegelhalter_z({}).z)"; its first function is imported."""
    words = call.replace("(", " ").split()
    function = next(word for word in words if word not in ("abs", "float"))
    return f"from {module} import {function}\n\n\ndef metric(y, p):\n    return {call.format(order)}"


# -- torchmetrics ------------------------------------------------------------------------------------------------------

_TORCHMETRICS = """import torch
from torchmetrics.functional.classification import {kind}_calibration_error


def metric(y, p, n_bins=15):
    return {kind}_calibration_error(torch.tensor(p), torch.tensor(y), {classes}n_bins=n_bins, norm="{norm}")"""
_NORMS = {"l1": _ECE, "l2": "the root of Σ share of a bin · gap²", "max": "the largest gap of a bin"}
TORCHMETRICS = tuple(
    Audited(
        "torchmetrics",
        f'{kind}_calibration_error(norm="{norm}")',
        what,
        _TORCHMETRICS.format(kind=kind, norm=norm, classes="" if kind == "binary" else "num_classes=p.shape[1], "),
        classes=BINARY if kind == "binary" else (2, 3),
        binary="column" if kind == "binary" else "matrix",
        one_bin="positive" if kind == "binary" else "top",
    )
    for kind in ("binary", "multiclass")
    for norm, what in _NORMS.items()
)

# -- netcal ------------------------------------------------------------------------------------------------------------

_NETCAL = """from netcal.metrics import {name}


def metric(y, p, n_bins=10):
    return {name}(bins=n_bins).measure(p, y)"""
_MMCE: tuple[tuple[str, tuple[int, ...], BinaryForm], ...] = (
    ("of matrices", (2, 3), "matrix"),
    ("of one probability", BINARY, "column"),
)
_MMCE_BUG = (
    "of one probability per row it takes that of class 1 for the confidence also where class 0 is predicted, so that a "
    "row that is certainly and rightly of class 0 has error 1"
)
NETCAL = (
    *(
        Audited("netcal", f"{name}(bins=10)", what, _NETCAL.format(name=name), one_bin="positive")
        for name, what in (
            ("ECE", _ECE),
            ("ACE", "the mean gap of the bins that are not empty"),
            ("MCE", "the largest gap of a bin"),
        )
    ),
    *(
        Audited(
            "netcal",
            f"MMCE(), {shown}",
            "the root of a kernel form in the residuals of the confidence",
            "from netcal.metrics import MMCE\n\n\ndef metric(y, p):\n    return MMCE().measure(p, y)",
            classes,
            binary,
            bug=_MMCE_BUG if binary == "column" else "",
        )
        for shown, classes, binary in _MMCE
    ),
)

# -- scikit-learn ------------------------------------------------------------------------------------------------------

_CURVE = """from sklearn.calibration import calibration_curve


def metric(y, p, n_bins=5):
    true, predicted = calibration_curve(y, p, n_bins=n_bins{strategy})
    return {value}"""
_COUNTED = """from sklearn.calibration import calibration_curve


def metric(y, p, n_bins=5):
    true, predicted = calibration_curve(y, p, n_bins=n_bins)
    counts = np.bincount(np.searchsorted(np.linspace(0, 1, n_bins + 1)[1:-1], p))
    return np.sum(np.abs(true - predicted) * counts[counts > 0]) / len(y)"""
_MEAN = "np.mean(np.abs(true - predicted))"
SCIKIT_LEARN = (
    Audited(
        "scikit-learn",
        "calibration_curve, mean of the gaps",
        "the mean |frequency − mean prediction| of the points of the curve",
        _CURVE.format(strategy="", value=_MEAN),
        BINARY,
        one_bin="positive",
    ),
    Audited(
        "scikit-learn",
        "calibration_curve, gaps weighted by counts",
        _ECE,
        _COUNTED,
        BINARY,
        one_bin="positive",
    ),
    Audited(
        "scikit-learn",
        'calibration_curve(strategy="quantile"), mean of the gaps',
        "the same mean over bins of equal mass",
        _CURVE.format(strategy=', strategy="quantile"', value=_MEAN),
        BINARY,
        one_bin="positive",
    ),
    *_functions(
        "scikit-learn",
        "sklearn.metrics",
        {
            "brier_score_loss": ("brier_score_loss({})", "the Brier score: a proper loss, listed as a yardstick"),
            "log_loss": ("log_loss({}, labels=[0, 1])", "the logarithmic loss: a proper loss, listed as a yardstick"),
        },
    ),
)

# -- relplot -----------------------------------------------------------------------------------------------------------

RELPLOT = (
    *_functions(
        "relplot",
        "relplot",
        {
            "smECE": ("smECE({})", "smooth ECE, of the width that equals it"),
            "smECE_sigma": ("smECE_sigma({})", "smooth ECE of the fixed width 0.05"),
        },
        order="p, y",
    ),
    Audited(
        "relplot",
        "metrics.binnedECE",
        _ECE,
        "from relplot.metrics import binnedECE\n\n\ndef metric(y, p, n_bins=10):\n    return binnedECE(p, y, n_bins)",
        BINARY,
        one_bin="positive",
    ),
    *_functions(
        "relplot",
        "relplot.metrics",
        {
            "metrics.binnedECEw": ("binnedECEw({})", "binnedECE plus the width of a bin"),
            "metrics.laplace_calibration_approx": (
                "laplace_calibration_approx({})",
                "the root of a kernel form in the residuals, over random pairs of rows",
            ),
        },
        order="p, y",
    ),
)

# -- uncertainty-calibration -------------------------------------------------------------------------------------------

_TOP = "top class; the positive class where there are two"
_BINNED = """from calibration import {name}


def metric(y, p, n_bins=15):
    return {name}(p, y, num_bins=n_bins)"""
UNCERTAINTY_CALIBRATION = (
    Audited(
        "uncertainty-calibration",
        "get_ece",
        f"{_ECE}, {_TOP}",
        _BINNED.format(name="get_ece"),
        one_bin="positive",
    ),
    Audited(
        "uncertainty-calibration",
        "get_ece_em",
        f"the same over bins of equal mass, {_TOP}",
        _BINNED.format(name="get_ece_em"),
        one_bin="positive",
    ),
    *_functions(
        "uncertainty-calibration",
        "calibration",
        {
            "get_calibration_error": (
                "get_calibration_error({})",
                "the root of the debiased squared error, each class",
            ),
            "get_calibration_error(debias=False)": (
                "get_calibration_error({}, debias=False)",
                "the root of the squared error, each class",
            ),
            "get_calibration_error(p=1, debias=False)": (
                "get_calibration_error({}, p=1, debias=False)",
                "the absolute error, each class",
            ),
            "get_top_calibration_error": ("get_top_calibration_error({})", "the root of the debiased squared error"),
            "get_binning_ce": ("get_binning_ce({})", "the debiased root for predictions of few values"),
            "lower_bound_scaling_ce": ("lower_bound_scaling_ce({})", "the debiased root over 15 bins of equal mass"),
        },
        order="p, y",
        classes=(2, 3),
    ),
)

# -- probmetrics -------------------------------------------------------------------------------------------------------

_PROBMETRICS = """import torch
from probmetrics.metrics import Metrics

METRICS = Metrics.from_names(["{name}"])


def metric(y, p):
    found = METRICS.compute_all_from_labels_probs(torch.tensor(y), torch.tensor(p))
    return found["{name}"]"""
_KS = """import torch
from probmetrics.distributions import CategoricalDirac, CategoricalProbs
from probmetrics.metrics import KolmogorovSmirnovCalibrationMetric


def metric(y, p):
    y, p = CategoricalDirac(torch.tensor(y), n_classes=2), CategoricalProbs(torch.tensor(p))
    return KolmogorovSmirnovCalibrationMetric().compute(y, p)"""
PROBMETRICS = (
    *(
        Audited("probmetrics", f'"{name}"', what, _PROBMETRICS.format(name=name), classes, "matrix")
        for name, what, classes in (
            ("ece-15", f"torchmetrics' ECE: {_ECE}", (2, 3)),
            ("rmsce-15", "torchmetrics' l2 norm: the root of Σ share of a bin · gap²", (2, 3)),
            ("mce-15", "torchmetrics' max norm: the largest gap of a bin", (2, 3)),
            ("smece", "relplot's smooth ECE, of the top class where there are three", (2, 3)),
            ("kuiper", "the range of the cumulative residuals", BINARY),
            ("brier", "the Brier score: a proper loss, listed as a yardstick", (2, 3)),
        )
    ),
    Audited(
        "probmetrics",
        "KolmogorovSmirnovCalibrationMetric",
        "the largest cumulative residual",
        _KS,
        BINARY,
        "matrix",
    ),
)

# -- MAPIE -------------------------------------------------------------------------------------------------------------

_MAPIE = """from mapie.metrics.calibration import expected_calibration_error


def metric(y, p, n_bins=50):
    return expected_calibration_error({arguments}, num_bins=n_bins{options})"""
MAPIE = (
    Audited(
        "MAPIE",
        "expected_calibration_error",
        f"{_ECE}, top class",
        _MAPIE.format(arguments="(p.argmax(axis=1) == y).astype(int), p", options=""),
        binary="matrix",
        one_bin="top",
    ),
    Audited(
        "MAPIE",
        "expected_calibration_error(classwise=True)",
        "the same of each class, averaged",
        _MAPIE.format(arguments="y, p", options=", classwise=True, class_labels=y"),
        binary="matrix",
    ),
    Audited(
        "MAPIE",
        "top_label_ece",
        "ECE within each predicted class, averaged",
        "from mapie.metrics.calibration import top_label_ece\n\n\ndef metric(y, p):\n    return top_label_ece(y, p)",
        binary="matrix",
    ),
    *_functions(
        "MAPIE",
        "mapie.metrics.calibration",
        {
            "kolmogorov_smirnov_statistic": (
                "kolmogorov_smirnov_statistic({})",
                "a test's statistic: the largest cumulative residual over its scale",
            ),
            "kuiper_statistic": (
                "kuiper_statistic({})",
                "a test's statistic: the range of the cumulative residuals over its scale",
            ),
            "|spiegelhalter_statistic|": ("abs(spiegelhalter_statistic({}))", "a test's statistic, without its sign"),
        },
    ),
)

# -- torch-uncertainty -------------------------------------------------------------------------------------------------

_TORCH_UNCERTAINTY = """import torch
from torch_uncertainty.metrics.classification import {name}


def metric(y, p{bins}):
    measure = {name}({options})
    measure.update(torch.tensor(p){kind}, torch.tensor(y))
    return measure.compute()"""
TORCH_UNCERTAINTY = tuple(
    Audited(
        "torch-uncertainty",
        name,
        what,
        _TORCH_UNCERTAINTY.format(
            name=name,
            options=options,
            bins=f", n_bins={n_bins}" if n_bins else "",
            kind=".float()" if name == "SmoothCalibrationError" else "",
        ),
        (2, 3),
        "matrix",
        one_bin="top" if n_bins and name != "ClasswiseCalibrationError" else "",
    )
    for name, n_bins, options, what in (
        (
            "CalibrationError",
            10,
            'task="multiclass", num_classes=p.shape[1], num_bins=n_bins',
            f"torchmetrics' ECE: {_ECE}, top class",
        ),
        (
            "AdaptiveCalibrationError",
            10,
            'task="multiclass", num_classes=p.shape[1], num_bins=n_bins',
            "the same over bins of equal mass",
        ),
        ("ClasswiseCalibrationError", 15, "num_classes=p.shape[1], num_bins=n_bins", "ECE of each class, averaged"),
        ("SmoothCalibrationError", None, "", "smooth ECE, of the width that equals it, in log-odds"),
        ("BrierScore", None, "num_classes=p.shape[1]", "the Brier score: a proper loss, listed as a yardstick"),
    )
)

# -- calibre -----------------------------------------------------------------------------------------------------------

_CALIBRE = """from calibre.metrics import {name}


def metric(y, p, n_bins=10):
    return {name}(y, p, n_bins=n_bins)"""
CALIBRE = (
    *(
        Audited("calibre", name, what, _CALIBRE.format(name=name), BINARY, one_bin="positive")
        for name, what in (
            ("expected_calibration_error", _ECE),
            ("maximum_calibration_error", "the largest gap of a bin"),
            ("binned_calibration_error", "the root of the mean squared gap of the bins that are not empty"),
        )
    ),
    *_functions(
        "calibre",
        "calibre.metrics",
        {
            "mean_calibration_error": ("mean_calibration_error({})", "the mean |prediction − outcome|"),
            "brier_score": ("brier_score({})", "the Brier score: a proper loss, listed as a yardstick"),
        },
    ),
)

# -- probcal -----------------------------------------------------------------------------------------------------------

_PROBCAL_BINNED = """from probcal.metrics import {name}


def metric(y, p, n_bins={n_bins}):
    return {name}(y, p, n_bins=n_bins{options}){part}"""


def _probcal_binned(name: str, options: str, what: str) -> Audited:
    code = _PROBCAL_BINNED.format(name=name, n_bins=15, options=f", {options}" if options else "", part="")
    return Audited("probcal", f"{name}({options})", what, code, BINARY, one_bin="positive")


PROBCAL = (
    _probcal_binned("ece", "", f"{_ECE}, equal mass"),
    _probcal_binned("ece", 'strategy="width"', f"{_ECE}, equal width"),
    _probcal_binned("ece", 'norm="max"', "the largest gap of a bin, equal mass"),
    *_functions(
        "probcal",
        "probcal.metrics",
        {
            "ece_debiased": ("ece_debiased({})", "ECE from squared gaps less their variance, not below 0"),
            "ece_sweep": ("ece_sweep({})", "ECE, with as many bins as keep the frequencies rising"),
            "smooth_ece": ("smooth_ece({})", "smooth ECE"),
            'skce(estimator="uq")': ("skce({})", "squared kernel error over pairs of different rows"),
            'skce(estimator="biased")': ('skce({}, estimator="biased")', "squared kernel error over all pairs"),
            "ecce.stat_max": ("ecce({}).stat_max", "the largest cumulative residual"),
            "ici": ("ici({})", "the mean |loess curve − prediction|"),
            "e50": ("e50({})", "the median |loess curve − prediction|"),
            "e90": ("e90({})", "the 90% quantile of |loess curve − prediction|"),
            "emax": ("emax({})", "the largest |loess curve − prediction|"),
            "hosmer_lemeshow.statistic": ("hosmer_lemeshow({}).statistic", "a test's statistic, ten groups"),
            "|spiegelhalter_z.z|": ("abs(spiegelhalter_z({}).z)", "a test's statistic, without its sign"),
            "|calibration_intercept|": ("abs(calibration_intercept({}))", "Cox's intercept, as a distance from 0"),
            "|calibration_slope − 1|": ("abs(calibration_slope({}) - 1)", "Cox's slope, as a distance from 1"),
            "murphy_decomposition.reliability": (
                "murphy_decomposition({}).reliability",
                "Σ share of a bin · gap²: the calibration part of the Brier score",
            ),
            "logloss_calibration_refinement.calibration": (
                "logloss_calibration_refinement({}).calibration",
                "the mean divergence of predictions from a loess curve",
            ),
            "brier_score": ("brier_score({})", "the Brier score: a proper loss, listed as a yardstick"),
            "log_loss": ("log_loss({})", "the logarithmic loss: a proper loss, listed as a yardstick"),
        },
    ),
)

PEERS = (
    *TORCHMETRICS,
    *NETCAL,
    *SCIKIT_LEARN,
    *RELPLOT,
    *UNCERTAINTY_CALIBRATION,
    *PROBMETRICS,
    *MAPIE,
    *TORCH_UNCERTAINTY,
    *CALIBRE,
    *PROBCAL,
)


_OUTCOMES: dict[str, OutcomeKind] = {"cumulative": "ordered", "labelwise": "labels"}
_OUTCOMES |= {"distribution": "numbers", "survival": "numbers"}


def ours() -> tuple[Audited, ...]:
    """Every member of ERRORS, and the score."""
    from truecal import ERRORS

    lines = "from truecal import ERRORS\n\nmetric = ERRORS[{name!r}]"
    bounded = (
        "from truecal import CalibrationError, ERRORS\n\nerror = ERRORS[{name!r}]\n"
        "metric = CalibrationError(type(error.property)((0.0, 1.0)), error.binning, error.norm)"
    )
    at_thresholds = (
        "from truecal import CalibrationError, ERRORS\n\nerror = ERRORS[{name!r}]\n\n\n"
        "def metric(y, p):\n    of = type(error.property)(range(p.shape[1]))\n"
        "    return CalibrationError(of, error.binning, error.norm)(y, p)"
    )
    uncensored = (
        "from dataclasses import replace\n\nimport numpy as np\n\nfrom truecal import ERRORS\n\n"
        "error = ERRORS[{name!r}]\n\n\n"
        "def metric(y, p):\n    of = type(error.property)(range(1, p.shape[1] + 1))\n"
        "    times = np.asarray(y) + 0.5, np.ones(len(y)), np.ones(np.shape(p))\n"
        "    return replace(error, property=of)(times, p)"
    )
    forms = {"linear": bounded, "distribution": at_thresholds, "survival": uncensored}
    score = "from truecal import score\n\n\ndef metric(y, p):\n    return score(y, p)"
    return (
        *(
            Audited(
                "truecal",
                name,
                error.symbol,
                forms.get(error.property.kind, lines).format(name=name),
                (2, 4) if error.property.label_by_label else (2, 3),
                "auto",
                _OUTCOMES.get(error.property.kind, "classes"),
            )
            for name, error in ERRORS.items()
        ),
        Audited("truecal", "score", "loss + gap², of the confidence", score, binary="auto"),
    )
