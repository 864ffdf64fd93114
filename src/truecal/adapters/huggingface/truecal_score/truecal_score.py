"""A module of Hugging Face evaluate: whether probabilities can be trusted, by truecal."""

from typing import Any

import datasets
import evaluate

import truecal
from truecal.adapters.logged_numbers import numbers

_DESCRIPTION = """\
The truthful calibration score (what to rank by, lower is better), the calibration gap in probability points with its
95% interval, the p-value of the calibration test, and ECE, accuracy and Brier score.
"""

_INPUTS = """\
Args:
    predictions: one list of class probabilities per row; each sums to 1.
    references: the index of the observed class of each row.
    groups: the cluster of each row, where rows are not independent.
Returns:
    A dictionary of numbers, without those that cannot be computed (an interval from three rows).
"""

_CITATION = """\
@article{lu2025truthful,
  title={Truthful Calibration Errors for Multi-Class Prediction},
  author={Lu, Yuxuan and Wu, Yifan and Hartline, Jason and Hu, Lunjia},
  journal={arXiv preprint arXiv:2510.06388},
  year={2025}
}
"""


class TruecalScore(evaluate.Metric):  # type: ignore[misc]  # the framework comes without types where it is absent
    """evaluate.load(truecal.adapters.huggingface.path())"""

    def _info(self) -> Any:
        features = {
            "predictions": datasets.Sequence(datasets.Value("float64")),
            "references": datasets.Value("int64"),
        }
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(features),
        )

    def _compute(self, predictions: Any, references: Any, groups: Any = None) -> dict[str, float]:
        return numbers(truecal.evaluate(references, predictions, groups=groups))
