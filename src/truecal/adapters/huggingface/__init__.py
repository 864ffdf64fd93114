"""path: the folder of a Hugging Face evaluate module that measures calibration, read without a network."""

from __future__ import annotations

from pathlib import Path


def path() -> str:
    """The folder that `evaluate.load` takes: `evaluate.load(path())`, offline.

    Its `compute(predictions=probabilities, references=labels)` gives score, gap, gap_low, gap_high, pvalue, ece,
    accuracy and brier, where the rows allow them. Predictions are one list of probabilities per row, references
    the indices of the observed classes.

    >>> from pathlib import Path
    >>> from truecal.adapters import huggingface
    >>> Path(huggingface.path()).name
    'truecal_score'
    """
    return str(Path(__file__).parent / "truecal_score")
