"""Tables that real tools could write and no reader expects, beside those of fuzz.py: odd types, names and containers.

Written by pyarrow, numpy, torch and json from random columns, without hypothesis, so that its blind spots are others.
`python -m tests.fuzz_malformed --cases 20000 --seed 7` runs as many as wanted; the tests run a few hundred.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import safetensors.numpy
import torch

sys.path.insert(0, str(Path(__file__).parent))
import fuzz
import fuzzing

Generator = np.random.Generator
NAMES = (
    *("label", "y", "target", "prob", "prob_0", "prob_1", "prob_2", "probs", "logits", "logit_a", "logit_b", "p_cat"),
    *(
        "confidence",
        "prediction",
        "correct",
        "id",
        "weight",
        "",
        " prob_0",
        "PROB_1",
        "prob_1 ",
        "Übung",
        "a.b",
        "x\ny",
    ),
    *("__index_level_0__", "Unnamed: 0", "prob_🙂", "\ufeffprob_0", "0", "1", "-1", "nan", "true", "prob_" * 60),
)
TEXTS = (
    "cat",
    "dog",
    "",
    " ",
    "NA",
    "nan",
    "None",
    "1",
    "0",
    "1.0",
    "True",
    "é",
    "\x00",
    "a,b",
    'q"q',
    "x\ny",
    "🙂",
    "-inf",
    "1e3",
)
SUFFIXES = {
    "csv": (".csv", ".tsv", ".csv.gz", ".CSV"),
    "json": (".json", ".jsonl", ".ndjson", ".jsonl.gz", ".json.gz"),
    "arrow": (".parquet", ".pq", ".feather", ".arrow"),
    "arrays": (".npz", ".npy", ".pt", ".safetensors"),
}


def pick(rng: Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def column(rng: Generator, n: int) -> list[Any]:
    """Values of one column: mostly of one kind, some of them missing or of another."""
    kind = int(rng.integers(12))
    made: list[Any]
    if kind <= 3:
        made = rng.dirichlet([0.5, 0.5], n)[:, 0].tolist()
    elif kind == 4:
        made = rng.integers(-1, 4, n).tolist()
    elif kind == 5:
        made = [pick(rng, TEXTS) for _ in range(n)]
    elif kind == 6:
        made = [pick(rng, (True, False)) for _ in range(n)]
    elif kind == 7:
        made = [rng.dirichlet(np.ones(int(rng.integers(1, 4)))).tolist() for _ in range(n)]
    elif kind == 8:
        made = (rng.normal(size=n) * 10.0 ** rng.integers(-5, 300)).tolist()
    elif kind == 9:
        made = [pick(rng, (2**62, -(2**62), 2**31, 0)) for _ in range(n)]
    elif kind == 10:
        made = [{"a": float(rng.random()), "b": pick(rng, TEXTS)} for _ in range(n)]
    else:
        made = [pick(rng, (date(2026, 1, 2), datetime(2026, 1, 2, 3), Decimal("0.5"), b"xy", None)) for _ in range(n)]
    for i in range(n):
        if rng.random() < 0.04:
            made[i] = pick(rng, (None, float("nan"), float("inf"), -1.0, 2.0, 0.5, 0))
    return made


def table(rng: Generator) -> dict[str, list[Any]]:
    """Columns by name; often two that sum to 1 and a label, so that some are read."""
    n = int(pick(rng, (0, 1, 2, 3, 7, 30)))
    found: dict[str, list[Any]] = {}
    if rng.random() < 0.6:
        p = rng.dirichlet([1.0, 1.0], n)
        found = {"label": rng.integers(0, 2, n).tolist(), "prob_0": p[:, 0].tolist(), "prob_1": p[:, 1].tolist()}
    for _ in range(int(rng.integers(0, 4))):
        found[pick(rng, NAMES)] = column(rng, n)
    return found


def written_csv(rng: Generator, of: dict[str, list[Any]]) -> bytes:
    mark, quote = pick(rng, (",", ",", ";", "\t", "|")), pick(rng, ("", '"', "'"))
    cells = [list(of), *map(list, zip(*of.values(), strict=True))] if of else []
    if cells and rng.random() < 0.2:
        row = cells[int(rng.integers(len(cells)))]
        row += [0.5] if rng.random() < 0.5 else []
        del row[: int(rng.random() < 0.5)]
    lines = [mark.join(f"{quote}{'' if cell is None else cell}{quote}" for cell in row) for row in cells]
    if rng.random() < 0.15:
        lines.insert(0, pick(rng, ("# a comment", "sep=;", "", "---")))
    text = pick(rng, ("\n", "\r\n", "\r")).join(lines) + pick(rng, ("\n", "", "\n\n"))
    if rng.random() < 0.1:
        text = text.replace(".", ",")
    return text.encode(pick(rng, ("utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-8")), "replace")


def written_json(rng: Generator, of: dict[str, list[Any]], lines: bool) -> bytes:
    rows = [dict(zip(of, row, strict=True)) for row in zip(*of.values(), strict=True)]
    for row in rows:
        if row and rng.random() < 0.05:
            row.pop(pick(rng, list(row)))
    form = int(rng.integers(3))
    if lines:
        return "\n".join(json.dumps(row, default=str) for row in rows).encode() + pick(
            rng, (b"\n", b"", b"{", b"null\n")
        )
    return json.dumps(rows if form == 0 else of if form == 1 else {"rows": rows}, default=str).encode()


def written_arrow(rng: Generator, of: dict[str, list[Any]], suffix: str) -> bytes:
    columns = []
    for values in of.values():
        made = pa.array(values)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind = pick(
                rng, (None, None, None, pa.float16(), pa.float32(), pa.string(), pa.decimal128(20, 6), pa.int8())
            )
            try:
                made = made if kind is None else made.cast(kind)
                made = made.dictionary_encode() if rng.random() < 0.1 else made
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                pass
        columns.append(made)
    names = [pick(rng, NAMES) if rng.random() < 0.05 else name for name in of]
    whole = pa.Table.from_arrays(columns, names=names)
    sink = io.BytesIO()
    if suffix in (".parquet", ".pq"):
        parquet.write_table(
            whole, sink, row_group_size=int(pick(rng, (1, 2, 1000))), compression=pick(rng, ("snappy", "gzip", "none"))
        )
    else:
        feather.write_feather(whole, sink, compression=pick(rng, ("lz4", "uncompressed")))
    return sink.getvalue()


def array(rng: Generator) -> Any:
    """An array of any type and shape, now and then of probabilities."""
    n, k = int(pick(rng, (0, 1, 5, 12))), int(pick(rng, (1, 2, 3)))
    if rng.random() < 0.5:
        p = rng.dirichlet(np.ones(k), n)
        return pick(
            rng, (p, p.astype(np.float32), p.astype(np.float16), p[:, 0], p.T, p[None], np.log(p + 1e-9), 100 * p)
        )
    dtype = pick(rng, ("float64", "int64", "uint8", "bool", "complex64", "<U4", "S3", "M8[s]", ">f4", "int8"))
    return rng.integers(0, 3, pick(rng, ((n,), (n, k), (n, k, 2), ()))).astype(dtype)


def written_arrays(rng: Generator, suffix: str) -> bytes:
    named = {
        pick(rng, ("probs", "logits", "labels", "y", "classes", "correct", "confidence", "a")): array(rng)
        for _ in range(3)
    }
    if suffix == ".npy":
        return fuzz.saved(lambda b: np.save(b, array(rng)))
    if suffix == ".npz":
        packed = fuzz.saved(lambda b: (np.savez if rng.random() < 0.5 else np.savez_compressed)(b, **named))
        if rng.random() < 0.2:
            sink = io.BytesIO(packed)
            with warnings.catch_warnings(), zipfile.ZipFile(sink, "a") as archive:
                warnings.simplefilter("ignore")
                archive.writestr(
                    pick(rng, ("probs.npy", "../x.npy", "readme.txt", "x/")),
                    pick(rng, (b"", b"text", bz2.compress(b"x"))),
                )
            packed = sink.getvalue()
        return packed
    numbers = {
        name: np.ascontiguousarray(x) for name, x in named.items() if x.dtype.kind in "fiub" and x.dtype.isnative
    }
    if suffix == ".safetensors":
        return safetensors.numpy.save(numbers)
    tensors: Any = {name: torch.from_numpy(x) for name, x in numbers.items()}
    tensors = pick(
        rng, (tensors, tensors, list(tensors.values()), {**tensors, "note": "text", "n": 3}, {"inner": tensors})
    )
    return fuzz.saved(lambda b: torch.save(tensors, b))


def case(seed: int, number: int) -> tuple[str, bytes]:
    """The name and the content of one file, the same every time."""
    rng = np.random.default_rng([seed, number])
    family = list(SUFFIXES)[number % len(SUFFIXES)]
    suffix = pick(rng, SUFFIXES[family])
    of = table(rng)
    if family == "csv":
        content = written_csv(rng, of)
    elif family == "json":
        content = written_json(rng, of, not suffix.startswith(".json") or suffix.startswith(".jsonl"))
    elif family == "arrow":
        try:
            content = written_arrow(rng, of, suffix)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            content = fuzz.saved(lambda b: arrow_csv.write_csv(pa.table({"label": [1], "prob": [0.5]}), b))
    else:
        content = written_arrays(rng, suffix)
    if suffix.endswith(".gz"):
        content = gzip.compress(content) + (gzip.compress(content) if rng.random() < 0.2 else b"")
    if rng.random() < 0.15:
        content = content[: int(rng.integers(len(content) + 1))]
    return f"a{suffix}", content


def run(seed: int, numbers: range, read: Callable[[Path, bytes], Any] = fuzz.attempt) -> Iterator[tuple[int, str]]:
    """The cases that fail, with what happened."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in numbers:
            name, content = case(seed, number)
            try:
                read(Path(folder, name), content)
            except Exception as error:  # whatever it was, it is the finding
                yield number, fuzzing.failure(f"{name}", error)


def main(given: list[str] | None = None) -> int:
    """Exit code 0 when every file ended as it should."""
    return fuzzing.main("fuzz_malformed", "Files of unexpected content.", 2000, "files", run, given)


if __name__ == "__main__":
    sys.exit(main())
