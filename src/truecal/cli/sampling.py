"""Language models on the command line: sampled answers, and confidence that is stated in text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import typer

from truecal.io import FileError, read_samples
from truecal.io.answer_files import is_sampled, read_stated
from truecal.io.failures import path_text
from truecal.kinds.inputs import Progress

from .shared_options import Measuring, SamplingOptions, fraction, option_names
from .sources import Asked, Measured

_TAKEN = ("--seed", "--level", "--resamples", "--bins", *option_names(SamplingOptions).values())


@dataclass(frozen=True)
class Answers:
    """A file of answers of a language model: by the options, or by what a log holds."""

    asked: Asked
    rows: int = 0

    @classmethod
    def of(cls, asked: Asked) -> Self | None:
        if not asked.sampling.given:
            plain = asked.one and set(asked.given) <= set(_TAKEN)
            return cls(asked) if plain and is_sampled(str(asked.files[0])) else None
        asked.allow(_TAKEN, "cannot apply to sampled answers or stated confidence")
        return cls(asked)

    def measure(self, progress: Progress | None) -> Measured:
        return Measured(_measure_samples(self.asked.files[0], self.asked.sampling, self.asked.measuring))


def _measure_samples(file: Path, sampling: SamplingOptions, measuring: Measuring) -> Any:
    """The evaluation of a file of sampled answers."""
    from truecal.language import from_samples

    if sampling.confidence is not None:
        return _measure_stated(file, sampling, measuring)
    counts = measuring.counts
    if counts is not None and len(counts) > 1:
        raise typer.BadParameter("takes one number for sampled answers", param_hint="--bins")
    about = {name: getattr(sampling, name) for name in ("samples", "question", "correct", "reference", "pattern")}
    read = read_samples(str(file), **about)
    level = fraction(measuring.level, "--level")
    options: dict[str, Any] = {"n_bins": None if counts is None else counts[0], "seed": measuring.seed, "level": level}
    try:
        result = from_samples(**read.arguments, **options, n_resamples=measuring.n_resamples, name=file.stem)
    except ValueError as error:
        raise FileError(f"{path_text(file)}: {error}") from error
    return result.with_notes([f"{file.stem}: {note}" for note in read.notes])


def _measure_stated(file: Path, sampling: SamplingOptions, measuring: Measuring) -> Any:
    """The evaluation of a file of answers with a stated confidence."""
    from truecal.language import from_stated

    for name in ("samples", "reference", "pattern"):
        if getattr(sampling, name) is not None:
            option = "--answer-pattern" if name == "pattern" else f"--{name}"
            raise typer.BadParameter("cannot apply beside --confidence", param_hint=option)
    if measuring.bins is not None:
        raise typer.BadParameter("cannot apply to stated confidence; use Python", param_hint="--bins")
    read = read_stated(str(file), sampling.confidence or "", sampling.correct, sampling.question)
    options: dict[str, Any] = {"level": fraction(measuring.level, "--level"), "n_resamples": measuring.n_resamples}
    try:
        result = from_stated(
            read.stated, read.correct, questions=read.questions, seed=measuring.seed, name=file.stem, **options
        )
    except (ValueError, TypeError) as error:
        raise FileError(f"{path_text(file)}: {error}") from error
    return result.with_notes([f"{file.stem}: {note}" for note in read.notes])
