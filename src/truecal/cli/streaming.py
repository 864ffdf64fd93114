"""Which tables are read in batches: those larger than the memory budget, folders and globs."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import typer

from truecal.core.extras import require
from truecal.io.column_rules import Request
from truecal.io.containers import FORMATS, inside
from truecal.io.dataset import Dataset, can_stream, is_dataset
from truecal.io.failures import failure, readable
from truecal.io.limits import available_memory
from truecal.io.read_file import file_format
from truecal.io.token_logs import is_token_log, token_batches
from truecal.kinds.inputs import Progress

from .loading import open_table, split_kind
from .shared_options import Batching, Reading, file_of, split
from .sources import Asked, Measured

WORK = 4
"""Measuring in memory takes about so many times what the predictions take."""
FEWEST_FOR_WORKERS = 1 << 28
"""Fewer predictions are counted before worker processes have started."""
NO_WORKERS = "counted by threads of this process: so many worker processes would take longer"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(K|M|G|T|KI|MI|GI|TI)?B?", re.IGNORECASE)


def budget(memory: str | None) -> int:
    """Bytes that a run may take: as given, such as 2GB, or a quarter of the free memory."""
    if memory is None:
        return available_memory() // 4
    found = _SIZE.fullmatch(memory.strip())
    if found is None or float(found[1]) <= 0:
        raise typer.BadParameter(f"expected a size such as 500MB or 2GB, got {memory!r}", param_hint="--memory")
    return int(float(found[1]) * _UNITS[(found[2] or "").upper()])


@dataclass(frozen=True)
class Batches:
    """Tables that are read in batches: large ones, and those for which that was asked for."""

    asked: Asked
    datasets: list[Dataset]

    @classmethod
    def of(cls, asked: Asked) -> Self | None:
        datasets = _datasets(asked)
        if datasets is None:
            return None
        for option in ("--segments", "--advise"):
            if option in asked.given:
                raise failure(asked.files[0], f"{option} needs all rows in memory, and this table is larger")
        return cls(asked, datasets)

    @property
    def rows(self) -> int:
        return len(self.datasets) * self.datasets[0].n_rows

    def measure(self, progress: Progress | None) -> Measured:
        return Measured(_measure_tables(self.asked, self.datasets, progress))


@dataclass(frozen=True)
class TokenLog:
    """A log of observed tokens, counted in one pass where that was asked for."""

    asked: Asked
    request: Request
    rows: int = 0

    @classmethod
    def of(cls, asked: Asked) -> Self | None:
        path, kind = split_kind(asked.files[0])
        lines = FORMATS.get(inside(str(path)).suffix) in ("json", "jsonl")
        if not asked.batching.one_pass or not asked.one or not lines:
            return None
        file_format(str(path))
        request = Request(str(path), kind=kind)
        if not is_token_log(request):
            return None
        asked.allow(("--one-pass", "--bins", "--level", "--memory"), "cannot be used with --one-pass and tokens")
        return cls(asked, request)

    def measure(self, progress: Progress | None) -> Measured:
        import truecal as tc

        measuring = self.asked.measuring
        stream = tc.stream("top_label", n_bins=measuring.counts or 15, edges="uniform")
        for batch in token_batches(self.request):
            stream.update(batch.correct, batch.confidence, groups=batch.document)
        name = readable(inside(str(split_kind(self.asked.files[0])[0])).stem)
        return Measured(stream.result(level=measuring.settings()["level"], name=name))


def _datasets(asked: Asked) -> list[Dataset] | None:
    """The files as tables to be read in batches, or None where they are to be read into memory."""
    measuring, places, files = asked.measuring, asked.places, asked.files
    limit = budget(asked.batching.memory)
    batched = [option for option in ("--one-pass", "--dask", "--workers") if option in asked.given]
    if not all(map(can_stream, places)):
        if batched:
            raise typer.BadParameter("takes parquet and arrow tables, which can be streamed", param_hint=batched[0])
        _refuse_large(places, limit, asked.batching)
        return None
    several = any(map(is_dataset, places))
    if not batched and not several and WORK * sum(path.stat().st_size for path in places if path.is_file()) < limit:
        return None  # typed tables are packed, but hardly to less than a quarter
    weights = measuring.weights if measuring.weights and file_of(measuring.weights) is None else None
    datasets = [open_table(file, asked.reading, weights) for file in files]
    if not batched and _needed(datasets) <= limit:
        return None
    _refuse_options(asked, datasets[0].path, batched)
    return datasets


def _needed(datasets: Sequence[Dataset]) -> int:
    """Bytes that the tables take when they are read as a whole and measured."""
    return WORK * sum(dataset.n_rows * dataset.row_bytes for dataset in datasets)


def _refuse_large(places: Sequence[Path], limit: int, batching: Batching) -> None:
    """A budget that was asked for and cannot be kept is refused: other formats are read as a whole."""
    large = [path for path in places if not can_stream(path) and path.is_file() and path.stat().st_size > limit]
    if batching.memory is not None and large:
        raise typer.BadParameter(
            f"{large[0]} alone is larger, and only parquet and arrow tables can be read in batches",
            param_hint="--memory",
        )


def _refuse_options(asked: Asked, path: str, batched: Sequence[str]) -> None:
    """What needs all rows at once is refused before any work."""
    options = ("--labels", "--id", "--temperature", "--task", "--by", "--groups", "--overlap", "--weights")
    used = [option for option in options if option in asked.given]
    if "--weights" in used:
        used.remove("--weights")
        used += ["--weights FILE"] * (file_of(asked.given["--weights"]) is not None)
    whole = f"without {' and '.join(batched)}" if batched else "with enough --memory"
    if used:
        raise failure(
            path,
            f"{' and '.join(used)} cannot be used, because the table is read in batches and labels and weights must be "
            f"its columns; {whole} it is read as a whole",
        )


def refuse_test(file: Path, reading: Reading) -> None:
    """The resampling test has no form without the rows."""
    path, _ = split_kind(file)
    if is_dataset(path):
        table = open_table(file, reading)
        if _needed([table]) > budget(None):
            words = f"expected rows that fit in memory, got {table.n_rows}: the test draws labels for each of them"
            raise failure(path, words)


def _measure_tables(asked: Asked, datasets: Sequence[Dataset], progress: Any) -> Any:
    """The evaluation of one table or the comparison of several, in this process or on a cluster."""
    from truecal.scale import files

    settings, batching = asked.measuring.settings(), asked.batching
    options = {"errors": split(asked.measuring.errors), "n_bins": settings["n_bins"], "level": settings["level"]}
    here = batching.workers is not None and not _worth_workers(datasets, batching.workers)
    with nullcontext() if here and batching.dask is None else _client(batching) as client:
        if client is not None:
            from truecal.scale import cluster

            options["edges"] = "uniform" if batching.one_pass else None
            if asked.one:
                return cluster.evaluate(datasets[0], client=client, **options)
            return cluster.compare(datasets, client=client, **options)
        options |= {"one_pass": batching.one_pass, "progress": progress}
        found = (
            files.evaluate_dataset(datasets[0], **options) if asked.one else files.compare_datasets(datasets, **options)
        )
        found = found.with_notes([NO_WORKERS]) if here else found
        return found if batching.one_pass else found.with_notes(_how_to_test(datasets))


def _worth_workers(datasets: Sequence[Dataset], workers: int) -> bool:
    """Whether so many processes are faster than this one, which counts in several threads and starts at once."""
    from truecal.core.dispatch import THREADS
    from truecal.scale.files import MOST_LANES

    predictions = sum(dataset.n_rows * dataset.row_bytes // 8 for dataset in datasets)
    return workers > min(THREADS, MOST_LANES) and predictions >= FEWEST_FOR_WORKERS


def _how_to_test(datasets: Sequence[Dataset]) -> list[str]:
    """The budget under which the tables would be read as a whole, where there is so much memory."""
    needed = _needed(datasets)
    if needed > available_memory():
        return []
    them = "it is" if len(datasets) == 1 else "they are"
    return [f"with --memory {-(-needed // 10**6)}MB {them} read as a whole, with the calibration test"]


@contextmanager
def _client(batching: Batching) -> Iterator[Any]:
    """A client of the cluster that was asked for, None where none was."""
    if batching.dask is None and batching.workers is None:
        yield None
        return
    if batching.dask is not None and batching.workers is not None:
        raise typer.BadParameter(
            "cannot be combined with --dask, which sets the number of workers", param_hint="--workers"
        )
    if batching.workers is not None:
        from truecal.scale.cluster import local_client

        with local_client(batching.workers) as client:
            yield client
        return
    distributed = require("distributed", "scale")
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # failures come back as errors
    with distributed.Client(batching.dask) as client:
        yield client
