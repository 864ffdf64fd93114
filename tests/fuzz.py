"""Damaged and random files: whatever the bytes are, a reader returns checked predictions or raises FileError.

The tests run some cases of each kind, the same in every run; `python -m tests.fuzz --cases 100000` runs as many as
wanted, at random, and prints the case that failed.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import struct
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import safetensors.numpy
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from truecal.core.data import check_probabilities
from truecal.io import FileError, Predictions, read_labels, read_predictions

T = TypeVar("T")
Cases = st.SearchStrategy[tuple[str, bytes]]  # the name of a file, and its content

PROBA = np.array([[0.25, 0.75], [0.5, 0.5], [0.125, 0.875], [1.0, 0.0]], dtype=np.float32)
LABELS = np.array([1, 0, 1, 0])


def table(*, lists: bool = False) -> pa.Table:
    if lists:
        return pa.table({"label": LABELS, "probs": pa.array(PROBA.tolist(), type=pa.list_(pa.float32()))})
    names = pa.array(["cat" if y == 0 else "dog" for y in LABELS])
    return pa.table({"label": names, "prob_cat": PROBA[:, 0], "prob_dog": PROBA[:, 1]})


def fixed() -> pa.Table:
    """Lists of a fixed size, and labels as categories."""
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(PROBA.ravel()), 2)
    return pa.table({"label": pa.array([str(y) for y in LABELS]).dictionary_encode(), "probs": vectors})


def saved(write: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def arrow_stream(of: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, of.schema) as writer:
        writer.write_table(of)
    return sink.getvalue()


def sample_log(*, text_targets: bool = False) -> bytes:
    lines = []
    for i in range(3):
        scores = [[str(-1.5 * (j + i)), "False"] for j in range(2 + i)]
        arguments = {f"gen_args_{j}": {"arg_0": "Q", "arg_1": f" choice {j}"} for j in range(2 + i)}
        target = "choice 0" if text_targets else "0"
        record = {"doc_id": i, "doc": {"q": "?"}, "target": target, "arguments": arguments, "filter": "none"}
        lines.append(json.dumps({**record, "resps": [[s] for s in scores], "filtered_resps": scores, "acc": 1.0}))
    return "\n".join(lines).encode()


def seeds() -> dict[str, bytes]:
    """A valid file of every format, by a name that ends in its suffix."""
    files = {
        "plain.npy": saved(lambda b: np.save(b, PROBA)),
        "plain.npz": saved(lambda b: np.savez(b, probs=PROBA, labels=LABELS, classes=np.array(["cat", "dog"]))),
        "packed.npz": saved(lambda b: np.savez_compressed(b, logits=4 * PROBA, labels=LABELS)),
        "top.npz": saved(lambda b: np.savez(b, correct=LABELS == 1, confidence=PROBA[:, 1])),
        "wide.parquet": saved(lambda b: parquet.write_table(table(), b)),
        "lists.parquet": saved(lambda b: parquet.write_table(table(lists=True), b, compression="zstd")),
        "wide.feather": saved(lambda b: feather.write_feather(table(), b, compression="lz4")),
        "lists.feather": saved(lambda b: feather.write_feather(table(lists=True), b, compression="uncompressed")),
        "fixed.feather": saved(lambda b: feather.write_feather(fixed(), b, compression="zstd")),
        "stream.arrow": arrow_stream(table()),
        "fixed.parquet": saved(lambda b: parquet.write_table(fixed(), b)),
        "wide.csv": saved(lambda b: arrow_csv.write_csv(table(), b)),
        "lists.tsv": b"label\tprobs\n1\t[0.25, 0.75]\n0\t[0.5, 0.5]\n",
        "top.csv": b"label,prediction,confidence\ncat,dog,0.75\ndog,dog,0.5\n",
        "bare.csv": b"0.25,0.75\n0.5,0.5\n",
        "packed.csv.gz": gzip.compress(b"label,prob_0,prob_1\n1,0.25,0.75\n0,0.5,0.5\n"),
        "records.json": b'[{"label": "b", "probs": {"a": 0.25, "b": 0.75}}, {"label": "a", "probs": {"a": 1, "b": 0}}]',
        "columns.json": b'{"label": [1, 0], "probs": [[0.25, 0.75], [0.5, 0.5]]}',
        "records.jsonl": b'{"label": "a", "prob_a": 0.25, "prob_b": 0.75}\n{"label": "b", "prob_a": 1, "prob_b": 0}\n',
        "index.jsonl": sample_log(),
        "text.jsonl": sample_log(text_targets=True),
    }
    files["plain.safetensors"] = safetensors.numpy.save({"probs": PROBA, "labels": LABELS})
    tensors = {"probs": torch.tensor(PROBA), "labels": torch.tensor(LABELS)}
    files["plain.pt"] = saved(lambda b: torch.save(tensors, b))
    return files


SEEDS = seeds()


def consistent(read: Predictions) -> None:
    """What a reader lets through is whole: shapes agree, probabilities are probabilities, labels are columns."""
    assert read.notes and all("\n" not in note for note in read.notes)
    if read.kind == "top_label":
        assert read.confidence is not None and ((read.confidence >= 0) & (read.confidence <= 1)).all()
        assert read.correct is not None and read.correct.shape == read.confidence.shape
        return
    proba = check_probabilities(read.probabilities())
    assert proba.shape == (read.n, read.n_classes)
    if read.y_true is not None and read.y_true.ndim == 2:  # soft labels
        assert check_probabilities(read.y_true).shape == proba.shape
    elif read.y_true is not None:
        assert read.y_true.shape == (read.n,)
        assert read.y_true.min() >= 0 and read.y_true.max() < proba.shape[1]
    if read.n_choices is not None and read.y_true is not None:
        assert bool((read.y_true < read.n_choices).all())


def attempt(path: Path, content: bytes) -> Predictions | None:
    """Read it as predictions and as labels; FileError is the only way out beside success, and it is one line."""
    path.write_bytes(content)
    _, refusal = outcome(lambda: read_labels(path))
    assert refusal is None or "\n" not in refusal
    read, refusal = outcome(lambda: read_predictions(path))
    assert refusal is None or (refusal.startswith(f"{path}: ") and "\n" not in refusal), refusal
    if read is not None:
        consistent(read)
    return read


def outcome(call: Callable[[], T]) -> tuple[T | None, str | None]:
    try:
        return call(), None
    except FileError as error:
        return None, str(error)


@st.composite
def damage(draw: st.DrawFn, content: bytes) -> bytes:
    """Flip, overwrite, insert, delete or truncate, a few times."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        if not data:
            break
        at = draw(st.integers(0, len(data) - 1))
        kind = draw(st.sampled_from(["flip", "flip", "write", "insert", "delete", "truncate", "number"]))
        if kind == "flip":
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "write":
            data[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, *b"-0,\"'\n[]{}"]))
        elif kind == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=16))
        elif kind == "delete":
            del data[at : at + draw(st.integers(1, 64))]
        elif kind == "truncate":
            del data[at:]
        else:
            size = draw(st.sampled_from([4, 8]))
            value = draw(st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1]))
            data[at : at + size] = value.to_bytes(8, "little")[:size]
    return bytes(data)


CELLS = st.one_of(
    st.sampled_from(
        ["0.5", "1", "0", "", "nan", "inf", "-inf", "NA", "cat", "1e400", "0x1", " 0.5 ", "[0.5, 0.5]", '"', "1_0"]
    ),
    st.text(max_size=6),
)
NAMES = st.sampled_from(
    ["label", "prob_a", "prob_b", "p_a", "p_b", "logit_a", "logit_b", "probs", "logits", "a", "b", "y", "p", "prob",
     "prediction", "confidence", "correct", "target", "id", "", "Prob_İ", " label", "prob_"]
)  # fmt: skip


@st.composite
def random_csv(draw: st.DrawFn) -> bytes:
    width = draw(st.integers(0, 5))
    rows = [draw(st.lists(NAMES, min_size=width, max_size=width))]
    rows += draw(st.lists(st.lists(CELLS, min_size=max(0, width - 1), max_size=width + 1), max_size=5))
    ends = draw(st.sampled_from(["\n", "\r\n", "\r", "\n\n"]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-8"]))
    return ends.join(draw(st.sampled_from([",", ";", "\t"])).join(row) for row in rows).encode(encoding, "replace")


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=4), st.just("-1.5")),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)
RESPONSES = st.lists(
    st.one_of(
        st.tuples(st.floats(-50, 0), st.booleans()), st.lists(st.tuples(st.just("-2.5"), st.just("False"))), JSON
    ),
    max_size=4,
)


@st.composite
def random_record(draw: st.DrawFn) -> str:
    record = {}
    for key, values in {
        "doc_id": st.one_of(st.integers(0, 5), JSON),
        "target": st.one_of(st.integers(-1, 3), st.sampled_from(["0", "1", "A", "[0, 1]", "(" * 90]), JSON),
        "resps": RESPONSES,
        "filtered_resps": RESPONSES,
        "arguments": st.one_of(st.just([["Q", " A"], ["", " B"]]), JSON),
        "acc": st.one_of(st.sampled_from([0.0, 1.0]), JSON),
        "acc_mutual_info": JSON,
        "filter": st.sampled_from(["none", "strict"]),
    }.items():
        if draw(st.integers(0, 3)):
            record[key] = draw(values)
    return json.dumps(record)


DESCR = st.one_of(
    st.sampled_from(["<f4", "<f8", ">f8", "|O", "<U5", "|S3", "<i8", "<M8[ns]", "c16", "V4", "a3", "f2", ""]),
    st.just([("a", "<f4"), ("b", "|O")]),
    st.just(("<f4", (2, 2))),
    st.text(max_size=5),
)
SIZE = st.one_of(st.integers(0, 5), st.sampled_from([-1, 2**31, 2**62, 2**63, 10**30, True, 1.5, "3"]))


@st.composite
def random_npy(draw: st.DrawFn) -> bytes:
    shape = tuple(draw(st.lists(SIZE, max_size=4)))
    fields = {"descr": draw(DESCR), "fortran_order": draw(st.sampled_from([True, False, 0, None])), "shape": shape}
    header = draw(
        st.one_of(
            st.just(repr(fields)),
            st.just("(" * 9_000),
            st.just("{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 2L)}"),
            st.text(max_size=60),
            st.just(repr(fields) + " " * 20_000),
        )
    ).encode("utf-8", "replace")
    version = draw(st.sampled_from([(1, 0), (2, 0), (3, 0), (9, 9)]))
    declared = draw(st.sampled_from([len(header), len(header), 2**16 - 1, 0]))
    length = struct.pack("<H" if version == (1, 0) else "<I", min(declared, 2**16 - 1))
    return b"\x93NUMPY" + bytes(version) + length + header + draw(st.binary(max_size=64))


def random_npz(probs: bytes, labels: bytes, name: str) -> bytes:
    def write(buffer: io.BytesIO) -> None:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("probs.npy", probs)
            archive.writestr(name, labels)

    return saved(write)


LINES = st.lists(st.one_of(random_record(), JSON.map(json.dumps), st.text(max_size=20)), max_size=4)
STARTS = st.sampled_from(
    [b"", b"PK\x03\x04", b"PAR1", b"ARROW1\x00\x00", b"\xff\xff\xff\xff", b"\x93NUMPY\x01\x00", b"{"]
)
SUFFIXES = [".npz", ".npy", ".parquet", ".feather", ".arrow", ".pt", ".safetensors", ".jsonl", ".json", ".csv.gz"]
INNER = st.sampled_from(["labels.npy", "labels", "../labels.npy", ".npy"])

READERS: dict[str, Cases] = {
    **{f"damaged {name}": st.tuples(st.just(name), damage(content)) for name, content in SEEDS.items()},
    "random csv": st.tuples(st.sampled_from(["a.csv", "a.tsv"]), st.one_of(random_csv(), st.binary(max_size=200))),
    "random jsonl": LINES.map(lambda lines: ("a.jsonl", "\n".join(lines).encode("utf-8", "replace"))),
    "random json": JSON.map(lambda value: ("a.json", json.dumps(value).encode("utf-8", "replace"))),
    "random npy": random_npy().map(lambda content: ("a.npy", content)),
    "random npz": st.builds(random_npz, random_npy(), random_npy(), INNER).map(lambda content: ("a.npz", content)),
    "random bytes": st.builds(
        lambda suffix, start, rest: (f"a{suffix}", start + rest), st.sampled_from(SUFFIXES), STARTS, st.binary()
    ),
}
"""Every kind of hostile file, by name."""

HARD = {
    "wide row": ("a.csv", b"label,prob_a,prob_b\n" + b"0," * 300_000),
    "open quote": ("a.csv", b'label,prob_a,prob_b\n"'),
    "deep json": ("a.json", b"[" * 100_000),
    "wide json": ("a.json", b"[" + b"[]," * 100_000 + b"[]]"),
    "deep list": ("a.jsonl", b"[" * 100_000),
    "deep object": ("a.jsonl", b'{"a":' * 50_000),
    "long number": ("a.jsonl", b'{"doc_id": ' + b"9" * 5000 + b"}"),
}
"""Cases that once were trouble, or would be for a careless reader."""


def fuzz(cases: Cases, count: int, folder: Path, **options: Any) -> None:
    """Read `count` files; the first that does not end as it should is raised, made as small as it can be."""
    quiet = settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck))

    @settings(quiet, **options)
    @given(case=cases)
    def run(case: tuple[str, bytes]) -> None:
        name, content = case
        attempt(folder / name, content)

    run()


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 when every case ended as it should."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Hostile files for every reader.")
    parser.add_argument("--cases", type=int, default=10_000, help="files to read in all")
    parser.add_argument("--only", default="", help="only kinds whose name has this in it")
    given_options = parser.parse_args(arguments)
    kinds = {name: cases for name, cases in READERS.items() if given_options.only in name}
    count = -(-given_options.cases // max(1, len(kinds)))
    with tempfile.TemporaryDirectory() as folder:
        for name, cases in kinds.items():
            fuzz(cases, count, Path(folder), derandomize=False)
            print(f"{name}: {count} cases", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
