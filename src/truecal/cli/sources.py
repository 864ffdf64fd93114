"""Where the numbers of `evaluate` and `compare` come from: one source per kind of file, behind one protocol."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import typer

from truecal.io.runs import Run
from truecal.kinds.inputs import Progress

from .loading import split_kind
from .shared_options import Batching, Measuring, OneModel, Reading, SamplingOptions, option_names


class Measured(NamedTuple):
    """A result, and the names of the classes where they are shown beside it."""

    result: Any
    classes: Sequence[str] | None = None


class Source(Protocol):
    """One kind of input: whether a call is about it, and its numbers."""

    @classmethod
    def of(cls, asked: Asked) -> Self | None:
        """The source that a call is about, None where another one is; options that cannot apply to it raise."""

    @property
    def rows(self) -> int:
        """The rows that the progress bar counts, 0 where it shows shares alone."""

    def measure(self, progress: Progress | None) -> Measured:
        """Measure one model, or compare several."""


@dataclass(frozen=True)
class Asked:
    """The files of a call of `evaluate` or `compare`, and its options."""

    files: Sequence[Path]
    reading: Reading
    measuring: Measuring
    batching: Batching
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    one_model: OneModel = field(default_factory=OneModel)
    advise: bool = False
    """Whether advice is shown, in text or on the page."""
    runs: Sequence[Run] = ()

    @property
    def one(self) -> bool:
        return len(self.files) == 1

    @property
    def places(self) -> list[Path]:
        """The files without what follows their names, as in FILE:logits."""
        return [split_kind(file)[0] for file in self.files]

    @cached_property
    def given(self) -> dict[str, Any]:
        """The options that were given, by their names."""
        found = {}
        for group in (self.reading, self.measuring, self.batching, self.sampling, self.one_model):
            default = type(group)()
            for name, option in option_names(type(group)).items():
                if (value := getattr(group, name)) != getattr(default, name):
                    found[option] = value
        return found

    def allow(self, options: Collection[str], why: str) -> None:
        """Raise a usage error for the first option that is none of these."""
        self.refuse([option for option in self.given if option not in options], why)

    def refuse(self, options: Collection[str], why: str) -> None:
        """Raise a usage error for the first option given that is one of these."""
        found = next((option for option in options if option in self.given), None)
        if found is not None:
            raise typer.BadParameter(why, param_hint=found)


def measure_models(
    asked: Asked, y_true: Any, models: dict[str, Any], arguments: dict[str, Any], progress: Progress | None
) -> Any:
    """What `tc.evaluate` gives for the only model, or `tc.compare` for several."""
    import truecal as tc

    arguments = asked.measuring.settings() | arguments | {"progress": progress}
    if not asked.one:
        return tc.compare(y_true, models, **arguments)
    name, model = next(iter(models.items()))
    return tc.evaluate(y_true, model, name=name, **arguments)
