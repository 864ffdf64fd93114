"""Language models on the command line: sampled answers, and confidence that is stated in text."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from truecal.io import FileError, read_samples
from truecal.io.answer_files import is_sampled, read_stated
from truecal.io.failures import path_text

from .shared_options import Measuring, Reading, SamplingOptions, fraction

_OPTIONS = {"n_resamples": "--resamples", "one_pass": "--one-pass", "label_column": "--label-column"}
_TAKEN = ("seed", "level", "n_resamples", "bins")


def sampled(
    file: Path,
    sampling: SamplingOptions,
    reading: Reading,
    measuring: Measuring,
    segments: str | None,
    advise: bool,
    sums: bool,
) -> bool:
    """Whether a file is measured as sampled answers: by the options, or by what a log holds."""
    wanted: list[tuple[str, Any, Any]] = [
        ("segments", segments, None),
        ("advise", advise, False),
        ("sums", sums, False),
    ]
    for group in (reading, measuring):
        wanted += [(f.name, getattr(group, f.name), f.default) for f in fields(group) if f.name not in _TAKEN]
    given = [_OPTIONS.get(name, f"--{name.replace('_', '-')}") for name, value, default in wanted if value != default]
    if not sampling.given:
        return not given and is_sampled(str(file))
    if given:
        raise typer.BadParameter("cannot apply to sampled answers or stated confidence", param_hint=given[0])
    return True


def measure_samples(file: Path, sampling: SamplingOptions, measuring: Measuring) -> Any:
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
