"""One run from beginning to end: train what is missing, merge the tables, draw and write everything."""

from __future__ import annotations

import inspect
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.checkpoints import score
from reproduction.folder import claim, locked
from reproduction.presets import Preset, from_folder, make_preset
from reproduction.running import Job, Progress, Stopped, run_traces
from reproduction.traces import KINDS, Store, kind
from truecal.io import atomic_path


@dataclass(frozen=True)
class Reproduced:
    """What a run left: the folder, how many checkpoints of how many traces, and whether all of them are there."""

    out: Path
    traces: int
    checkpoints: int
    complete: bool


def reproduce(
    preset: str | None = None,
    *,
    out: str | Path,
    from_dir: str | Path | None = None,
    seed: int = 42,
    quick: bool = False,
    time_limit: float | None = None,
    **options: Any,
) -> Reproduced:
    """Run the paper's experiment under ``preset`` (``letter`` unless named) and write everything under ``out``.

    ``from_dir`` takes stored logits instead of training. ``time_limit`` (seconds) stops cleanly before it; the next
    run with the same arguments goes on from there. Other options are those of `run_preset` and the preset's own
    (`reproduction.presets`).
    """
    deadline = math.inf if time_limit is None else time.time() + time_limit
    own = inspect.signature(run_preset).parameters.keys() - {"deadline"}
    running = {key: options.pop(key) for key in own & options.keys()}
    if from_dir is None:
        chosen = make_preset(preset or "letter", seed=seed, quick=quick, **options)
    elif preset is None and not options:
        chosen = from_folder(from_dir)
    else:
        raise ValueError("stored logits (from_dir) take neither a preset nor its options")
    return run_preset(chosen, Path(out), deadline=deadline, **running)


def run_preset(
    preset: Preset,
    out: Path,
    *,
    experiments: Sequence[str] = KINDS,
    pieces: Sequence[int] | None = None,
    keep_logits: bool = False,
    processes: int | None = None,
    scorers: int = 0,
    deadline: float = math.inf,
    summary: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> Reproduced:
    """`reproduce` for a preset that is already made: the way in for a dataset of one's own.

    ``experiments`` and ``pieces`` take some of the preset's traces alone. Several are trained at a time in
    ``processes``, each with ``scorers`` more that measure behind it. ``summary=False`` leaves figures and tables for
    later, see `summarise`.
    """
    if not experiments or not set(experiments) <= set(KINDS):
        raise ValueError(f"experiments are among {', '.join(KINDS)}, got {', '.join(experiments) or 'none'}")
    out.mkdir(parents=True, exist_ok=True)
    planned = [
        replace(trace, experiment=name)
        for name, traces in preset.experiments.items()
        for trace in traces
        if kind(name) in experiments and (pieces is None or trace.piece in pieces)
    ]
    measure = partial(score, recalibrations=preset.recalibrations)
    job = Job(preset.open, measure, Store(out), deadline, keep_logits, scorers)
    with locked(out):
        claim(out, describe(preset))
        if keep_logits:
            _save_labels(out, preset)
        complete = True
        try:
            run_traces(job, planned, processes=processes or preset.processes, progress=progress)
        except Stopped:
            job.store.merge(planned)
            complete = False
        found = job.store.finished(planned)
        if complete and summary:
            from reproduction.summary import summarise

            summarise(out)
    return Reproduced(out, len(found), sum(map(len, found.values())), complete)


def describe(preset: Preset) -> dict[str, Any]:
    """What `run.json` records: enough to refuse a different run in the same folder, and to write the results."""
    recorded = {key: getattr(preset, key) for key in ("title", "warm_up", "beside_paper", "settings", "notes")}
    traces = {name: [trace.name for trace in traces] for name, traces in preset.experiments.items()}
    return {"preset": preset.name, **recorded, "traces": traces}


def print_progress(progress: Progress) -> None:
    """One line per epoch on standard error."""
    left = ""
    if progress.seconds_left < math.inf:
        minutes, seconds = divmod(round(progress.seconds_left), 60)
        left = f", about {f'{minutes} min {seconds:02d} s' if minutes else f'{seconds} s'} left"
    done = f"{progress.share:4.0%} {progress.finished}/{progress.traces} traces"
    print(f"{done}: {progress.trace} epoch {progress.epoch}/{progress.epochs}{left}", file=sys.stderr, flush=True)


def _save_labels(out: Path, preset: Preset) -> None:
    if not (out / "labels.npz").is_file():
        trainer = preset.open()
        with atomic_path(out / "labels.npz") as temporary:
            np.savez_compressed(temporary, validation=trainer.y_validation, test=trainer.y_test)
