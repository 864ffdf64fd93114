"""Every measure by name: composed errors and baselines, and which of them a kind of predictions allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.data import shown
from ..core.losses import LOSSES
from ..core.words import nearest
from ..kinds import COMPOSED
from ..kinds.inputs import Inputs
from .baseline import Baseline
from .clinical import CLASSICAL
from .of_bins import BINNED
from .of_decisions import DECISIONS
from .of_kernels import KERNELS
from .of_survival import TIMES
from .without_bins import CUMULATIVE, SMOOTH

BASELINES: dict[str, Baseline] = {
    baseline.name: baseline for baseline in (*BINNED, *KERNELS, *SMOOTH, *CUMULATIVE, *DECISIONS, *CLASSICAL, *TIMES)
}
"""The measures that are no composition of a property, a rule and a norm, or are known by another name."""

ERRORS: dict[str, Any] = {**COMPOSED, **BASELINES}
"""Every measure by name, a CalibrationError or a Baseline: each knows its property, whether it is truthful and why.
`evaluate` and `compare` measure the composed ones by themselves, and baselines where they are named."""


def check_errors(errors: Any, inputs: Inputs) -> tuple[str, ...]:
    """The errors to compute: all that apply, or the named ones, each of which must apply."""
    if errors is None:
        return inputs.error_names()
    possible = inputs.kind.measures(ERRORS, if_named=True)
    if isinstance(errors, str) or not isinstance(errors, Sequence) or not errors:
        raise TypeError(f"errors must be a sequence of names such as ('classwise', 'confidence'), got {shown(errors)}")
    for name in errors:
        if name not in ERRORS:
            close, loss = nearest(str(name), possible), nearest(str(name), LOSSES)
            if loss and not close:
                raise ValueError(f"{name!r} is a loss, which is always measured: result.loss({loss[0]!r})")
            meant = f"; did you mean {close[0]!r}?" if close else f"; expected some of {', '.join(possible)}"
            raise ValueError(f"there is no error {name!r}{meant}")
        if name not in possible:
            kind = inputs.kind.name.replace("_", "-")
            raise ValueError(f"{name!r} cannot be used with {kind} predictions; expected some of {', '.join(possible)}")
    return tuple(dict.fromkeys(errors))
