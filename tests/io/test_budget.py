"""One budget for all decoders: whatever a small file unpacks to, under 1 GB of memory reading ends in one error.

Each format has files of constant values, of coded ones, of packed ones and of such as are computed, as far as it can.
"""

from __future__ import annotations

import gzip
import os
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from prediction_files import refusal, write
from truecal.io import read_predictions
from truecal.io.containers import FORMATS
from truecal.io.limits import Budget, available_memory

ROWS = 1 << 26
STEP = 1 << 23
READ = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))
from truecal.io import FileError, read_predictions
try:
    print("read", read_predictions(sys.argv[1]).n)
except FileError as error:
    print("error", error)
"""


def numbers(n: int, **more: Any) -> pa.Table:
    return pa.table({"label": np.arange(n) % 2, "prob": np.full(n, 0.25), **more})


def coded(n: int, text: str) -> pa.Table:
    codes = pa.array(np.zeros(n, dtype=np.int32))
    return pa.table({"label": pa.DictionaryArray.from_arrays(codes, [text]), "prob": np.zeros(n)})


def save_parquet(path: Path, part: pa.Table, times: int = ROWS // STEP, **options: Any) -> None:
    with parquet.ParquetWriter(path, part.schema, **options) as writer:
        for _ in range(times):
            writer.write_table(part, row_group_size=len(part))


def save_arrow(path: Path, part: pa.Table, times: int, new: Any = pa.ipc.new_file) -> None:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as sink, new(sink, part.schema, options=options) as writer:
        for _ in range(times):
            writer.write_table(part)


def save_text(path: Path, head: bytes, line: bytes, lines: int = ROWS) -> None:
    block = line * 100_000
    with pa.CompressedOutputStream(str(path), {".gz": "gzip", ".zst": "zstd"}[path.suffix]) as sink:
        sink.write(head)
        for _ in range(lines // 100_000):
            sink.write(block)


def save_sparse(path: Path) -> None:
    """An array of zeros that takes no room on the disk."""
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({ROWS * 4}, 2)}}".ljust(117).encode() + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
        file.truncate(10 + len(head) + ROWS * 64)


def save_npz(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("probs.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (ROWS, 2)})
        for _ in range(16):
            file.write(bytes(ROWS))


def save_lists(path: Path) -> None:
    """The first list has two numbers, the others a million."""
    wide = pa.array([[0.5, 0.5], *[np.zeros(1 << 20)] * 40])
    table = pa.table({"label": np.zeros(len(wide), dtype=np.int8), "probs": wide})
    save_arrow(path, table, 6) if path.suffix == ".arrow" else save_parquet(path, table, 6, compression="zstd")


def save_keys(path: Path) -> None:
    """Lines that name a thousand columns, and as many empty ones as fit."""
    names = b",".join(b'"%d":0' % j for j in range(4000))
    path.write_bytes(b'{"label":1,"prob":0.5}\n' * 1500 + b"{" + names + b"}\n" + b"{}\n" * 100_000)


def save_corner(path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for place, value in {"A1": "label", "B1": "prob", "A2": 1, "B2": 0.5, "XFD1048576": 1}.items():
        book.active[place] = value
    book.save(path)


def save_sqlite(path: Path, column: str = "") -> None:
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE t (label INT, prob REAL{column})")
        database.executemany("INSERT INTO t (label, prob) VALUES (?, ?)", [(i % 2, 0.25) for i in range(10)])
    database.close()


def save_view(path: Path) -> None:
    save_sqlite(path)
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000)"
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE VIEW v AS {many} SELECT i % 2 AS label, 0.5 AS prob FROM n")
    database.close()


def save_duckdb(path: Path) -> None:
    database = pytest.importorskip("duckdb").connect(str(path))
    database.execute(f"CREATE TABLE t AS SELECT 1 AS label, 0.25::DOUBLE AS prob FROM range({ROWS * 2})")
    database.close()


def save_torch(path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"probs": torch.zeros(1).expand(10**6, 1000), "labels": torch.zeros(1)}, path)


def save_matlab(path: Path) -> None:
    from scipy.io import savemat

    savemat(path, {"probs": np.zeros((ROWS * 2, 1)), "labels": np.zeros((3, 1))}, do_compression=True)


GENERATED = ", junk TEXT GENERATED ALWAYS AS (hex(zeroblob(50000000))) VIRTUAL"
BOMBS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "csv packed": ("a.csv.zst", lambda p: save_text(p, b"label,prob\n", b"1,0.5\n")),
    "csv text": ("a.csv.zst", lambda p: save_text(p, b"label,prob\n", b"x" * 900 + b",0.5\n", 4_000_000)),
    "csv one line": ("a.csv.gz", lambda p: save_text(p, b"label,prob\n", b",", 300_000_000)),
    "jsonl packed": ("a.jsonl.zst", lambda p: save_text(p, b"", b'{"label": 1, "prob": 0.5}\n')),
    "jsonl keys": ("a.jsonl", save_keys),
    "json packed": ("a.json.gz", lambda p: write(p, gzip.compress(b"[" + b"[]," * 20_000_000 + b"[]]", 1))),
    "json texts": ("a.json", lambda p: write(p, b'["' + b"x" * 4_000_000 + b'"' + b',"a"' * 100_000 + b"]")),
    "parquet constant": ("a.parquet", lambda p: save_parquet(p, numbers(STEP))),
    "parquet packed": ("a.parquet", lambda p: save_parquet(p, numbers(STEP), use_dictionary=False, compression="zstd")),
    "parquet coded": ("a.parquet", lambda p: save_parquet(p, coded(STEP, "a" * 900))),
    "parquet lists": ("a.parquet", save_lists),
    "arrow packed": ("a.arrow", lambda p: save_arrow(p, numbers(STEP), 8)),
    "arrow one batch": ("a.arrow", lambda p: save_arrow(p, numbers(ROWS), 1)),
    "arrow coded": ("a.arrow", lambda p: save_arrow(p, coded(STEP, "a" * 900), 8)),
    "arrow stream": ("a.arrow", lambda p: save_arrow(p, numbers(ROWS // 2), 2, pa.ipc.new_stream)),
    "arrow lists": ("a.arrow", save_lists),
    "npy sparse": ("a.npy", save_sparse),
    "npz packed": ("a.npz", save_npz),
    "torch strides": ("a.pt", save_torch),
    "matlab packed": ("a.mat", save_matlab),
    "safetensors header": ("a.safetensors", lambda p: write(p, (10**15).to_bytes(8, "little") + b"{}")),
    "excel corner": ("a.xlsx", save_corner),
    "database generated": ("a.db", lambda p: save_sqlite(p, GENERATED)),
    "database view": ("a.db::v", lambda p: save_view(Path(str(p).partition("::")[0]))),
    "database constant": ("a.duckdb", save_duckdb),
}
QUICK = ("jsonl keys", "arrow one batch", "excel corner", "database generated", "npy sparse")
READ_WHOLE = {"database generated": 10}
"""Files whose bomb is in a column that nobody asks for."""


def test_every_format_has_a_bomb() -> None:
    assert {name.partition(" ")[0] for name in BOMBS} | {"inspect"} == set(FORMATS.values())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by the system's own means")
@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.heavy) for name in BOMBS if name not in QUICK)]
)
def test_a_small_file_needs_no_more_than_a_gigabyte(tmp_path: Path, name: str) -> None:
    file, save = BOMBS[name]
    save(tmp_path / file)
    path = tmp_path / file.partition("::")[0]
    assert 512 * path.stat().st_blocks < 1 << 25
    command = [sys.executable, "-c", READ, str(tmp_path / file)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    if name in READ_WHOLE:
        assert run.stdout == f"read {READ_WHOLE[name]}\n"
    else:
        assert run.stdout.startswith(f"error {tmp_path / file}: ") and run.stdout.count("\n") == 1


@pytest.mark.slow
def test_equal_values_are_no_bomb(tmp_path: Path) -> None:
    """190 MB in 170 kB."""
    n = 12_000_000
    parquet.write_table(numbers(n), tmp_path / "a.parquet", compression="zstd")
    assert (tmp_path / "a.parquet").stat().st_size < 200_000
    read = read_predictions(tmp_path / "a.parquet")
    assert read.n == n and read.proba is not None and read.proba[-1] == 0.25


def test_a_budget_is_memory_and_not_a_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(write(tmp_path / "a", bytes(1 << 16)))
    budget = Budget(path)
    assert budget.most == pytest.approx(available_memory() // 2, rel=0.2)
    monkeypatch.setattr("truecal.io.limits.available_memory", lambda: 1 << 30)
    budget = Budget(path)
    budget.charge(1 << 28, "the first part")
    with pytest.raises(ValueError, match="with the second part the file of 65536 bytes needs 768 MB"):
        budget.charge(1 << 29, "the second part")
    assert budget.left == budget.most - (1 << 28)


def test_columns_that_nobody_asks_for_are_not_read(tmp_path: Path) -> None:
    save_sqlite(tmp_path / "a.db", GENERATED)
    assert read_predictions(tmp_path / "a.db").n == 10
    assert "the column 'junk' cannot be read (string or blob too big)" in refusal(
        tmp_path / "a.db", label_column="junk"
    )
