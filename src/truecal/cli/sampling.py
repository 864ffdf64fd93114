"""Sampled answers on the command line: a model that was asked each question several times."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from truecal.io import FileError, read_samples
from truecal.io.failures import path_text
from truecal.io.sampled import is_sampled

from .options import Measuring, Reading, Sampling, fraction

_OPTIONS = {"n_resamples": "--resamples", "one_pass": "--one-pass", "label_column": "--label-column"}
_TAKEN = ("seed", "level", "n_resamples", "bins")


def sampled(
    file: Path,
    sampling: Sampling,
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
        raise typer.BadParameter("cannot apply to sampled answers", param_hint=given[0])
    return True


def measure_samples(file: Path, sampling: Sampling, measuring: Measuring) -> Any:
    """The evaluation of a file of sampled answers."""
    from truecal.language import from_samples

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
    sentence = () if result.sampling is None else (result.sampling.sentence,)
    return result.with_notes([*sentence, *(f"{file.stem}: {note}" for note in read.notes)])
