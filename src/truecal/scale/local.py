"""Worker processes of this machine, one thread each, as a cluster to count on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.data import check_positive_int
from ..core.extras import require

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
