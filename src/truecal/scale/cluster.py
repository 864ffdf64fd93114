"""evaluate and compare on a Dask cluster: every worker counts its own rows, only tables and some predictions move.

Two passes. In the first some rows of each partition are kept, labels unseen, and frozen into edges, which are stored.
In the second each partition becomes a stream over those edges. Streams merge in a tree whose shape depends on the
number of partitions alone, in the order of their rows, so the result does not depend on which worker counted what, nor
on how often: a task of a worker that died is done again.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..core.data import check_positive_int, shown
from ..core.extras import require
from ..core.rules import BinCounts
from ..inference.checks import check_level
from ..io.column_rules import Request
from ..io.dataset import Dataset
from ..io.failures import one_line
from ..io.writing import check_writable
from ..results.comparison import Comparison
from ..results.evaluation import Evaluation
from .files import check_applies, first_notes, first_step, left_out_rows, new_stream
from .partitions import PartitionError, Work, array_work, file_work, frame_work, title
from .stream import BLOCKS, Stream, compare_streams, empty_stream

__all__ = ["PartitionError", "compare", "evaluate", "local_client"]

_LOST = ("CancelledError", "FutureCancelledError", "FuturesCancelledError", "ClosedClientError", "CommClosedError")
FAN_IN = 8
"""So many streams are merged into one at each step of the tree."""


@dataclass(frozen=True)
class ClusterSettings:
    """How a run measures; the fields are keywords of `evaluate` and `compare`."""

    errors: Sequence[str] | None = None
    n_bins: BinCounts = "auto"
    edges: Any = None
    blocks: int = BLOCKS
    labels: Any = None
    pos_label: Any = 1
    sample_weight: Any = None
    part_rows: int | None = None


def evaluate(
    data: Any,
    y_proba: Any = None,
    *,
    client: Any = None,
    out: str | os.PathLike[str] | None = None,
    name: str | None = None,
    level: float = 0.95,
    **options: Any,
) -> Evaluation:
    """`truecal.evaluate` on a cluster: of Dask arrays (labels, predictions), a Dask DataFrame, or parquet files.

    `data` is a path (file, folder or glob of parquet) or a DataFrame, whose columns are found as `read_predictions`
    finds them and may be named by its options, with weights in the column `weight`; or it holds labels, beside
    `y_proba`. `client` is a `distributed.Client`, by default the current one; without any, threads of this process.

    Further options are those of `stream`: `errors`, `n_bins`, `edges` ("uniform" for one pass; the `out` file of an
    earlier run for its edges), `blocks`, and for arrays `labels`, `pos_label`, `sample_weight`. `out` is a file for
    the state: the edges before the second pass, all sums after it (`Stream.load`). `part_rows` is the least number of
    rows in a partition of parquet files, by default a 32nd of them, but 131,072 at least and 1,048,576 at most. What
    needs the rows, the calibration test, is left out.

    >>> import dask.array as da, numpy as np
    >>> from truecal.scale import cluster
    >>> rng = np.random.default_rng(0)
    >>> chances = rng.random(20_000)
    >>> y, p = rng.random(20_000) < chances, np.clip(chances + .1, 0, 1)
    >>> y, p = da.from_array(y, chunks=5000), da.from_array(p, chunks=5000)
    >>> cluster.evaluate(y, p, n_bins=10, edges="uniform").gap
    gap of 9.4 points [8.9, 10], too high (LinCE_binary, 10 bins, 20000 samples, 95% interval)
    """
    level = check_level(level)
    if y_proba is None:
        models: Any = [data] if name is None and not _is_frame(data) else {name or "model": data}
        y_true = None
    else:
        models, y_true = {name or "model": y_proba}, data
    work, streams, notes = _run(y_true, models, client, None if out is None else [Path(out)], options)
    return streams[0].result(level=level, name=work.names[0]).with_notes(notes)


def compare(
    data: Any,
    models: Mapping[str, Any] | None = None,
    *,
    client: Any = None,
    out: str | os.PathLike[str] | None = None,
    level: float = 0.95,
    **options: Any,
) -> Comparison:
    """`truecal.compare` on a cluster: labels and a mapping of names to predictions, all Dask arrays; or a mapping of
    names to parquet paths or DataFrames (or a list of paths) of the same rows, whose labels are compared.

    Options are those of `evaluate` here; `out` is a folder, with a state for each model in order.
    """
    level = check_level(level)
    y_true, tables = (None, data) if models is None else (data, models)
    paths = y_true is None and isinstance(tables, Sequence) and not isinstance(tables, str)
    if not isinstance(tables, Mapping) and not paths:
        raise TypeError(f"compare expects names and their predictions, or a list of paths, got {shown(tables)}")
    if not tables:
        raise ValueError("compare expects at least one model, got none")
    states = None
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        states = _model_states(out, len(tables))
    work, streams, notes = _run(y_true, tables, client, states, options)
    return compare_streams(dict(zip(work.names, streams, strict=True)), level).with_notes(notes)


def _model_states(folder: str | os.PathLike[str], models: int) -> list[Path]:
    return [Path(folder, f"model-{i}.npz") for i in range(models)]


def _run(
    y_true: Any, models: Any, client: Any, states: list[Path] | None, options: dict[str, Any]
) -> tuple[Work, list[Stream], list[str]]:
    """Both passes: the rows, their streams, and notes on how they were read."""
    own = {name: options.pop(name) for name in ClusterSettings.__dataclass_fields__ if name in options}
    settings = ClusterSettings(**own)
    for path in states or ():
        check_writable(path)  # not after hours of work
    scheduler = _Scheduler(_current_client() if client is None else _checked_client(client))
    work = _work(y_true, models, settings, scheduler, options)
    streams = [_blank(head, i, len(work.heads), work, settings) for i, head in enumerate(work.heads)]
    passes = 1 if all(stream.frozen for stream in streams) else 2
    edges_from: list[str] = []
    if passes == 2:
        streams = scheduler.merged("observe", work, streams, first_step(work.n_rows))
        edges_from = first_notes(streams[0], work.n_rows)
        _refuse_no_rows(streams[0].settings["observed"])
        for stream in streams:
            stream.freeze(work.n_rows)
    _save(streams, states)
    streams = scheduler.merged("count", work, [stream.without_rows() for stream in streams])
    _refuse_no_rows(streams[0].rows)
    _save(streams, states)
    parts, threads = len(work.partitions), "threads of one process" if scheduler.client is None else "a Dask cluster"
    said = (
        f"counted in {parts} partition{'s' * (parts > 1)} by {threads}, {'two passes' if passes == 2 else 'one pass'}"
    )
    return work, streams, [said, *edges_from, *work.notes, *left_out_rows(work.n_rows, streams[0].rows)]


def _refuse_no_rows(rows: int) -> None:
    """Chunks of unknown sizes may all turn out to be empty."""
    if not rows:
        raise ValueError("there are no rows")


def _work(y_true: Any, models: Any, settings: ClusterSettings, scheduler: _Scheduler, options: dict[str, Any]) -> Work:
    """The partitions of whatever was given."""
    names = list(models) if isinstance(models, Mapping) else None
    given = list(models.values()) if isinstance(models, Mapping) else list(models)
    files = all(isinstance(one, (str, os.PathLike, Dataset)) for one in given)
    if settings.part_rows is not None and not files:
        raise ValueError("part_rows= is for files: arrays and DataFrames already have partitions")
    if y_true is not None:
        if options:
            raise TypeError(f"{', '.join(options)}: these options apply to tables, not to arrays")
        return array_work(y_true, models, settings.sample_weight)
    for option, default in (("labels", None), ("pos_label", 1), ("sample_weight", None)):
        if getattr(settings, option) is not default:
            raise ValueError(f"{option}= is for arrays: labels and weights of tables are columns, weight='name'")
    if unknown := options.keys() - {"weight", *(field.name for field in fields(Request))}:
        raise TypeError(f"{', '.join(sorted(unknown))}: unknown option")
    if files:
        rows = None if settings.part_rows is None else check_positive_int(settings.part_rows, "part_rows")
        return file_work(given, names, rows, options)
    if names is not None and all(_is_frame(one) for one in given):
        return frame_work(given, names, scheduler.compute, options)
    raise TypeError(
        f"expected Dask arrays of labels and predictions, a Dask DataFrame, or a path of parquet files, "
        f"got {', '.join(shown(one) for one in given)}; for arrays in memory there is truecal.evaluate"
    )


def _is_frame(data: Any) -> bool:
    return bool(require("dask", "scale").is_dask_collection(data)) and hasattr(data, "columns")


def _blank(head: Any, i: int, models: int, work: Work, settings: ClusterSettings) -> Stream:
    """A stream without rows for one of the models; its edges may still be open."""
    edges, errors, n_bins = settings.edges, settings.errors, settings.n_bins
    expected = work.n_rows or 0
    if isinstance(edges, (str, os.PathLike)) and edges != "uniform":
        path = Path(edges) if models == 1 else _model_states(edges, models)[i]
        edges = Stream.load(path)
    if isinstance(edges, Stream):
        if errors is not None or n_bins != "auto":
            raise ValueError("errors and n_bins cannot be used: edges= gives a state, with its errors and bins")
        entries = edges.entries
        check_applies([entry.name for entry in entries], head.kind)
    else:
        fixed = edges is not None and not isinstance(edges, str)
        known = getattr(edges, "reliability", edges)
        if fixed and errors is None and isinstance(known, Mapping):
            errors = tuple(known)
        bins: Any = None if fixed and n_bins == "auto" else n_bins
        made = new_stream(head, work.n_rows, errors, bins, edges, settings.blocks)
        entries, expected = made.entries, made.expected
    return empty_stream(entries, settings.blocks, settings.labels, settings.pos_label).expect(expected)


def _save(streams: Sequence[Stream], states: Sequence[Path] | None) -> None:
    for stream, path in zip(streams, states or (), strict=False):
        stream.save(path)


# -- the work of a cluster --------------------------------------------------------------------------------------------


def _current_client() -> Any:
    """The client that was made last, if there is one: then its library is loaded."""
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        with suppress(ValueError):
            return distributed.Client.current()
    return None


def _checked_client(client: Any) -> Any:
    if not isinstance(client, require("distributed", "scale").Client):
        raise TypeError(f"client must be a distributed.Client, got {shown(client)}")
    return client


@dataclass(frozen=True)
class _Scheduler:
    """Where tasks run: a client's cluster, or threads of this process."""

    client: Any

    def compute(self, task: Any) -> Any:
        """The value of one Dask collection."""
        if self.client is None:
            return task.compute(scheduler="threads")
        with _connected():
            future = self.client.compute(task)
            try:
                return future.result()
            finally:
                future.release()

    def merged(self, what: str, work: Work, blank: Sequence[Stream], step: int = 1) -> list[Stream]:
        """One pass: a task for each partition, and a tree that merges what they give."""
        dask = require("dask", "scale")
        run = uuid4().hex
        start = dask.delayed(list(blank), name=f"truecal-blank-{run}", traverse=False)
        task, leaves = dask.delayed(_fed, pure=False), []
        for i, part in enumerate(work.partitions):
            first = what == "observe"
            feed, data = (work.observe, (step, part.start, *part.observed)) if first else (work.count, part.counted)
            named, shown_as = f"truecal-{what}-{run}-{i}", title(i, len(work.partitions), part.where)
            leaves.append((shown_as, task(feed, shown_as, start, *data, dask_key_name=named)))
        tree = _tree(leaves, dask.delayed(_merge, pure=False))
        try:
            found: list[Stream] = self.compute(tree)
        except PartitionError as error:
            raise error.with_traceback(None) from None
        except ConnectionError:
            raise
        except Exception as error:  # what a reader or a worker's death raises is not known: the partition is named
            failure = self._named(error, work, tree, leaves)
            if failure is error:
                raise
            raise failure from error
        return found

    def _named(self, error: Exception, work: Work, tree: Any, leaves: Sequence[tuple[str, Any]]) -> Exception:
        """The partition that failed before truecal read it, or whose worker died repeatedly."""
        if type(error).__name__ == "KilledWorker":
            needing = _dependents(tree.__dask_graph__(), getattr(error, "task", None))
            which = next((title for title, leaf in leaves if leaf.key in needing), "a partition")
            return PartitionError(f"{which}: every worker that ran it died ({one_line(error, 200)})")
        nothing = require("dask", "scale").delayed(_nothing, pure=False)
        found = self._first_failure([nothing(*part.counted) for part in work.partitions])
        return error if found is None else PartitionError(f"{leaves[found[0]][0]}: {one_line(found[1], 600)}")

    def _first_failure(self, tasks: Sequence[Any]) -> tuple[int, BaseException] | None:
        """The first task that fails, and how."""
        if self.client is not None:
            futures = self.client.compute(list(tasks))
            errors = [future.exception() for future in futures]
            return next(((i, error) for i, error in enumerate(errors) if error is not None), None)
        for i, task in enumerate(tasks):
            try:
                self.compute(task)
            except Exception as error:  # whatever it was, it is the answer
                return i, error
        return None


@contextmanager
def _connected() -> Iterator[None]:
    """Raise one clear error if the scheduler is lost."""
    try:
        yield
    except BaseException as error:  # some of Dask's are no Exceptions
        if type(error).__name__ not in _LOST:
            raise
        said = f"the connection to the Dask scheduler was lost ({one_line(error, 200) or type(error).__name__})"
        raise ConnectionError(f"{said}: nothing was measured") from None


def _dependents(graph: Mapping[Any, Any], task: Any) -> set[Any]:
    """The keys of a task and of all that depend on it; workers report keys as text."""
    _, users = require("dask.core", "scale").get_deps(dict(graph))
    found: set[Any] = set()
    todo = [key for key in users if str(key) == str(task)]
    while todo:
        if (key := todo.pop()) not in found:
            found.add(key)
            todo += users[key]
    return found


def _tree(leaves: Sequence[tuple[str, Any]], merge: Any) -> Any:
    """The leaves, each with its title, merged in their order, FAN_IN at a time."""
    while len(leaves) > 1:
        groups = [leaves[a : a + FAN_IN] for a in range(0, len(leaves), FAN_IN)]
        leaves = [(group[0][0], merge(*map(list, zip(*group, strict=True)))) for group in groups]
    return leaves[0][1]


def _fed(feed: Any, title: str, blank: Sequence[Stream], *data: Any) -> list[Stream]:
    """Streams of one partition, observed or counted; an error names the partition."""
    streams = [stream.without_rows() for stream in blank]
    try:
        feed(streams, *data)
    except (ValueError, TypeError, OSError) as error:
        raise PartitionError(f"{title}: {error}") from None
    return streams


def _merge(titles: Sequence[str], parts: Sequence[Sequence[Stream]]) -> list[Stream]:
    """Streams of the rows of all parts, model by model; an error names the part that does not fit."""
    whole = list(parts[0])
    for which, more in zip(titles[1:], parts[1:], strict=True):
        try:
            whole = [stream.merge(other) for stream, other in zip(whole, more, strict=True)]
        except ValueError as error:
            raise PartitionError(f"{which} and those before it: {error}") from None
    return whole


def _nothing(*data: Any) -> None:
    """A task that only loads its data."""


WORKER_SETTINGS = {
    "OMP_NUM_THREADS": 1,
    "OPENBLAS_NUM_THREADS": 1,
    "MKL_NUM_THREADS": 1,
    "MALLOC_MMAP_THRESHOLD_": 32 << 20,
    "MALLOC_TRIM_THRESHOLD_": 64 << 20,
}
"""One thread, since there are other workers; and memory of a batch is kept for the next one. Dask's own setting hands
it back to the system after every batch, which took more than a quarter of all processor time."""

_QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s"}
"""Nobody looks at the dashboard: without these, processes that only wait take some percent of a core each."""


@contextmanager
def local_client(workers: int) -> Iterator[Any]:
    """A `distributed.Client` of so many processes of this machine, which end with the context.

    Other clusters count as fast if their workers are started with the environment variables `WORKER_SETTINGS`.
    """
    count = check_positive_int(workers, "workers")
    dask, distributed = require("dask", "scale"), require("distributed", "scale")
    sizes: dict[str, Any] = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with dask.config.set({"distributed.nanny.pre-spawn-environ": WORKER_SETTINGS, **_QUIET}):
        local = distributed.LocalCluster(**sizes, silence_logs=logging.CRITICAL)  # failures come back as errors
    with local, distributed.Client(local, set_as_default=False) as client:
        yield client
