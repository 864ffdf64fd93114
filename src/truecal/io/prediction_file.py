"""What one prediction file holds, checked and with labels as column indices."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from truecal.core.row_kernels import softmax
from truecal.io.failures import failure

if TYPE_CHECKING:
    from truecal.io.matching import Keys

FileKind = Literal["probabilities", "logits", "top_label", "choices", "tokens"]
FILE_KINDS: tuple[FileKind, ...] = ("probabilities", "logits", "top_label", "choices", "tokens")

Floats = npt.NDArray[np.floating[Any]]
Indices = npt.NDArray[np.intp]
Labels = Indices | Floats  # column indices, or soft labels: a share of each class per row


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predictions of one model on n samples, as one file gives them.

    kind "probabilities": `proba` (n, k), float32 or float64 as stored. "logits": `logits` (n, k). Either is (n,) where
    the file gives one number per row, that of class 1 of two. "top_label": only `confidence` (n,) and, when the labels
    are known, `correct` (n,). "choices": rows with their own number of choices `n_choices` (n,); `logits` are the
    log-likelihoods padded with −inf and `proba` their softmax, padded with zeros. A zero-padded row is a probability
    vector over the padded choices, so the confidence errors and all five losses of `proba` are exact; classwise and
    full calibration mean something only if a column is the same class in every row.

    `y_true` holds column indices, or soft labels (n, k), or is None where the file has no labels (and always for
    "top_label"); `label_values` are the labels as written. `ids` are document numbers, where the format has them.
    `notes` tell what was read and by which rule; `unused` names the columns or keys of which nothing was. `rows` are
    the rows of the file that were kept, where some of its `n_rows` rows have no prediction and were dropped. `keys` are
    the columns by which rows of other files can be matched; `groups` the image or sequence that each row is from;
    `features` columns for segments that the format knows by itself; `stacked` the column that says which of several
    models each row is of; `facts` what a compiled pass found of each row.
    """

    name: str
    path: str
    kind: FileKind
    y_true: Labels | None = None
    proba: Floats | None = None
    logits: Floats | None = None
    classes: tuple[str, ...] | None = None
    correct: npt.NDArray[np.bool_] | None = None
    confidence: Floats | None = None
    n_choices: Indices | None = None
    ids: Indices | None = None
    label_values: npt.NDArray[Any] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    can_label: tuple[str, ...] = ()
    rows: Indices | None = None
    n_rows: int | None = None
    keys: Keys | None = field(default=None, repr=False)
    groups: Indices | None = None
    features: dict[str, Any] | None = field(default=None, repr=False)
    stacked: str = ""
    facts: Any = field(default=None, repr=False)

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self._rows)

    @property
    def top_only(self) -> bool:
        """Whether only the confidence in the top class is known."""
        return self.kind == "top_label"

    @property
    def n_classes(self) -> int | None:
        """The number of columns (of the longest row for "choices"), None for "top_label"."""
        if self.top_only:
            return None
        return 2 if self.one_number else int(self._rows.shape[1])

    @property
    def one_number(self) -> bool:
        """Whether the file gives one number per row, class 1's of two."""
        return not self.top_only and self._rows.ndim == 1

    @property
    def supports(self) -> tuple[str, ...]:
        """The properties whose calibration these predictions can be checked for."""
        ragged = self.n_choices is not None and len(np.unique(self.n_choices)) > 1
        if self.top_only or ragged:
            return ("confidence",)
        return ("binary", "confidence") if self.one_number else ("confidence", "classwise", "full")

    def take(self, rows: Indices) -> Predictions:
        """Some of the rows."""
        parts = ("y_true", "proba", "logits", "correct", "confidence", "n_choices", "ids", "label_values", "groups")
        changed: dict[str, Any] = {part: values[rows] for part in parts if (values := getattr(self, part)) is not None}
        return replace(self, **changed)

    def probabilities(self) -> Floats:
        """(n, k): `proba`, or the softmax of `logits`: p_r = exp z_r / Σ_s exp z_s; (1 − p, p) of one number p per row.

        >>> import numpy as np
        >>> from truecal.io import Predictions
        >>> Predictions("a", "a.npz", "logits", logits=np.log([[1.0, 3.0]])).probabilities()
        array([[0.25, 0.75]])
        """
        if self.proba is not None:
            return np.stack([1 - self.proba, self.proba], axis=1) if self.one_number else self.proba
        return softmax(self.logit_matrix())

    def logit_matrix(self) -> Floats:
        """(n, k): `logits`; one logit z per row as (0, z), whose softmax is the sigmoid of z."""
        if self.logits is None:
            wanted = "probabilities of all classes" if self.top_only else "logits"
            raise failure(self.path, f"expected {wanted}, but the file has only {self.kind.replace('_', ' ')}")
        return np.stack([np.zeros_like(self.logits), self.logits], axis=1) if self.one_number else self.logits

    @property
    def _rows(self) -> npt.NDArray[Any]:
        for rows in (self.proba, self.logits, self.confidence):
            if rows is not None:
                return rows
        raise TypeError("Predictions needs proba, logits or confidence, got none of them")

    def __repr__(self) -> str:
        width = "" if self.n_classes is None else f" x {self.n_classes}"
        labels = "labelled" if self.y_true is not None or self.correct is not None else "no labels"
        return f"<Predictions {self.name!r}: {self.kind}, {self.n}{width}, {labels}>"
