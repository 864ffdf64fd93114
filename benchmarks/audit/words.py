"""The words of docs/audit.md that no audit finds: what each library is for, how to read it, what is left out."""

from __future__ import annotations

LIBRARIES = {
    "torchmetrics": """
Streaming metrics for PyTorch. Its calibration errors describe how far confidence and accuracy of a sample are apart;
its documentation does not call them proper. Bins are closed on the left, so that predictions of exactly 1 fall into an
additional bin, beyond the number that was asked for (`one_bin`).""",
    "netcal": """
Calibration methods, and the errors with which their effect is described. Two classes are one probability of the
positive class. `MMCE` is listed in both forms: of one probability per row it has a bug, which is no property of
MMCE.""",
    "scikit-learn": """
scikit-learn has no calibration error: it offers the reliability curve for looking at, and proper losses for
choosing. Audited is what people compute from the curve: the mean of its gaps, or their mean weighted by the rows
behind each point.""",
    "relplot": """
The library of smooth ECE, by its authors: a consistent measure of the distance to calibration, made for reliability
diagrams without bins. Consistent and truthful are two properties, and it was built to be the first.
`laplace_calibration_approx` draws pairs of rows at random: it is not deterministic and has no verdict.""",
    "uncertainty-calibration": """
The estimators of "Verified Uncertainty Calibration". Their purpose is an estimate of the true calibration error with
little bias; a truthful error is no such estimate. With a NaN among the predictions `get_top_calibration_error` was
seen to give NaN in one call and a number in the next.""",
    "probmetrics": """
Proper losses and their split into calibration and refinement. The binned and smooth errors that it offers beside
them are those of torchmetrics and relplot, with predictions of 0 and 1 moved inwards for torchmetrics.""",
    "MAPIE": """
Conformal prediction. Its Kolmogorov-Smirnov, Kuiper and Spiegelhalter numbers are statistics of calibration tests,
to be read with their p-values; they are not offered as errors to rank by. `num_bins` of its ECE counts edges: 50
make 49 bins, and one more for predictions of exactly 0; with 1 no other row is counted (`one_bin`).""",
    "torch-uncertainty": """
Uncertainty quantification for PyTorch. Its calibration errors add bins of equal mass, single classes and smooth ECE
to that of torchmetrics. A call of `SmoothCalibrationError` takes some ten seconds where its value is near 0: the time
limit ended its audit before a lie at 300 rows had enough draws.""",
    "calibre": """
Isotonic and other calibrators, with numbers that describe their effect. `mean_calibration_error` is the mean
absolute difference between prediction and outcome, of which a certain prediction has the least wherever one class is
likelier.""",
    "probcal": """
Calibration for credit risk. Of its ECE the documentation says to report it and never to select on it, which is what
the verdicts come to as well. `skce(estimator="biased")` is a squared form that depends on predictions alone, and
truthful by the same theorem as the errors of truecal. All of its metrics want both classes among the outcomes, so
that small worlds hold certain rows beside the uncertain ones. `ici`, `e50`, `e90` and `emax` are distances to a
smooth curve; `hosmer_lemeshow` and `spiegelhalter_z` are statistics of tests.""",
    "truecal": """
Every member of `tc.ERRORS`, most of them measures of other people under their own names ([which](measures.md)), and
the score. Those that a theorem calls truthful must not be convicted, all others must be; tests hold the two lists
together. Of `cox_slope` nothing is shown: where predictions separate the labels it is infinite, which has a chance in
every small world, so that nothing has an expected value to compare.""",
}
"""What each library is for, in the order of the page."""

INTRO = """# The audit of calibration metrics

Does a metric reward lying? The calibration metrics of ten libraries, and our own, audited by `tc.audit` in one and
the same way ([how, and how to read a verdict](auditing.md); [why it matters](why-truthful.md)). Audited on {date}
with truecal {truecal}, Python {python} and the versions in the headings. `make audit` installs them in separate
environments, audits, runs every script, and writes this page and all proofs (`benchmarks/audit/PROOFS.md`).

**A verdict is no judgement of a library.** These metrics were made to describe a sample, and their documentation
does not call them proper. "Gamed" says that a forecaster who knows the true chances can lower the expected value by
predicting something else: such a metric may describe well, and should not decide who is best. Proper losses are in
the tables as yardsticks.

Of {audited} metrics of other libraries {gamed} are gamed, {lasting} of them also at 300 rows. Not convicted are
{rest}: {names}. Most of these are proper losses; the others are discussed with their libraries.

- **at 300 rows**: the expected values of the truth and of the best of ten plain lies, in a world of 300 rows whose
  chances are drawn from Dirichlet(1/2); the same drawn outcomes for both. Where none of them gains, the lie of the
  smallest proof is tried in its own world, repeated to 300 rows. The gain has its standard error. Pooling means: the
  mean chance for every row, or for every row of a predicted class.
- **smallest proof**: the fewest rows in which such a way of lying gains, exactly: the true chances of each row → what
  the liar predicts (the way of lying): expected value of the truth → of the lie, over all outcomes. Where two classes
  are one probability per row, it is the second number.
- **checks that failed**: `refuses_nan`, `refuses_infinite`, `refuses_bad_rows` (a row that is no distribution, or a
  probability above one) and `refuses_empty` ask whether bad input is answered by an error, NaN or infinity, and not
  by a number like any other; some libraries leave this to the caller, for speed. `row_order_with_ties`: the order of
  rows with equal predictions changes the value. `single_class`: no value when only one class occurs. `one_bin`: with
  a single bin the value is not |mean prediction − frequency|, as when a prediction of exactly 0 or 1 is counted
  apart or not at all.

Budgets: 4,000 calls, and 20,000 for what these did not convict; seed 0. A row says so where a limit of time cut its
search short. Numbers of classes: 2 and 3 where a metric takes both; a verdict names those that were not tested.
"""

KINDS = """For every way of lying that gains at 300 rows, the first metric of the tables under which it is the best.
Both scripts run with numpy and the library alone. Those of all metrics are in
`benchmarks/audit/PROOFS.md`."""

PROOFS_INTRO = """# Every proof of the audit

The scripts behind [the audit](../../docs/audit.md) and what they printed: numpy and the library alone. Generated by
`make audit`."""

LEFT_OUT = """## What is not in the tables

- p-values of tests, and errors of regressions, boxes and segmentations.
- `calib-err_…` and `refinement_…` of probmetrics: they fit a map in every call, and most want five rows of every
  class, so that no small world can be listed.
- `intCE_rand` of relplot, and `p=1` with `debias=True` of uncertainty-calibration: a thousand draws in every call.
- torch-uncertainty {torch_uncertainty} imports torchvision, of which PyPI has builds for CUDA. Next to a torch
  without CUDA that import fails ("operator torchvision::nms does not exist"). `benchmarks/audit/torchvision_cpu.py`
  declares the two operators that are missing, which none of these metrics uses; with a torch for CUDA nothing of
  this is needed.
- probmetrics {probmetrics} imports numba, which `pip install probmetrics` alone does not bring; it is installed
  beside it.
"""
