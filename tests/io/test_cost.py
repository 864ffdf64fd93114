"""What reading costs: libraries, imports, memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from prediction_files import LABELS, PROBA, WRITERS
from truecal.io import read_predictions


@pytest.mark.parametrize(("name", "module", "extra"), [
    ("a.parquet", "pyarrow.parquet", "cli"),
    ("a.feather", "pyarrow", "cli"),
    ("a.csv", "pyarrow", "cli"),
    ("a.safetensors", "safetensors", "torch"),
])  # fmt: skip
def test_a_missing_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, extra: str
) -> None:
    WRITERS[name](tmp_path / name, PROBA, LABELS, "probs")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'needs {module.partition(".")[0]}: pip install "truecal\[{extra}\]"'):
        read_predictions(tmp_path / name)


def test_importing_loads_numpy_alone() -> None:
    code = "import sys, truecal.io; print(*{m.partition('.')[0] for m in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyarrow", "torch", "scipy", "pandas", "safetensors"} & set(loaded)


BINARY = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq
p = np.random.default_rng(0).random(8_000_000)
pq.write_table(pa.table({"label": (np.roll(p, 1) < p).astype(np.int64), "prob": p}), sys.argv[1])
"""
MAKE = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq, pyarrow.feather as pf
rng = np.random.default_rng(0)
proba = rng.random((60_000, 600), dtype=np.float32)
proba /= proba.sum(axis=1, keepdims=True)
label = rng.integers(0, 600, 60_000)
if "lists" in sys.argv[1]:
    table = pa.table({"label": label, "probs": pa.FixedSizeListArray.from_arrays(pa.array(proba.ravel()), 600)})
else:
    table = pa.table({"label": label, **{f"prob_{j}": proba[:, j] for j in range(600)}})
pf.write_feather(table, sys.argv[1]) if sys.argv[1].endswith("feather") else pq.write_table(table, sys.argv[1])
"""
READ = """
import sys, numpy as np
import pyarrow.parquet, pyarrow.compute
from truecal.io import read_predictions

def peak():  # unlike getrusage, not inherited from the process that started this one
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

before = peak()
read = read_predictions(sys.argv[1])
after = peak()
assert read.proba.dtype == (np.float64 if read.one_number else np.float32)
print((after - before) / (read.proba.nbytes + read.y_true.nbytes))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize(
    ("name", "make", "most"),
    [
        ("wide.parquet", MAKE, 2.2),
        pytest.param("lists.parquet", MAKE, 2.5, marks=pytest.mark.heavy),
        pytest.param("wide.feather", MAKE, 2.2, marks=pytest.mark.heavy),
        ("binary.parquet", BINARY, 3),
    ],
)
@pytest.mark.heavy
def test_reading_needs_little_more_than_the_arrays(tmp_path: Path, name: str, make: str, most: float) -> None:
    path = str(tmp_path / name)
    subprocess.run([sys.executable, "-c", make, path], check=True)
    run = subprocess.run([sys.executable, "-c", READ, path], check=True, capture_output=True, text=True)
    assert 1 <= float(run.stdout) <= most  # times the arrays themselves, these included
