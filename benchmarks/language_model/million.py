"""A stream over a million tokens: `python -m benchmarks.language_model.million 40` repeats the stored log so often."""

from __future__ import annotations

import gzip
import resource
import sys
import tempfile
import time
from pathlib import Path

import truecal as tc

LOG = Path(__file__).parents[2] / "docs" / "logs" / "tokens.jsonl.gz"


def main(copies: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokens.jsonl")
        with path.open("wb") as file:
            for _ in range(copies):
                file.write(gzip.decompress(LOG.read_bytes()))
        began = time.process_time()
        stream = tc.stream("top_label", n_bins=15, edges="uniform")
        for batch in tc.tokens.batches(path):
            stream.update(batch.correct, batch.confidence, groups=batch.document)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{stream.rows:,} tokens: {time.process_time() - began:.1f} s, at most {peak:.0f} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
