"""Files of predictions as the tests of io write them, and what a reader says of a wrong one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest
import safetensors.numpy
import torch

from truecal.io import FileError, read_predictions

Array = np.ndarray[Any, Any]

PROBA = np.array([[0.25, 0.75], [0.5, 0.5], [0.125, 0.875]])
LABELS = np.array([1, 0, 1])


def refusal(path: Path, **options: Any) -> str:
    """What the FileError says after the path; also that it names the path and is one line."""
    with pytest.raises(FileError) as caught:
        read_predictions(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message.removeprefix(f"{path}: ")


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def table(proba: Array, labels: Array, prefix: str = "prob_") -> pa.Table:
    return pa.table({"label": labels, **{f"{prefix}{j}": proba[:, j] for j in range(proba.shape[1])}})


def write_npz(path: Path, proba: Array, labels: Array, key: str, save: Any = np.savez) -> None:
    save(path, **{key: proba, "labels": labels})


def write_wide(save: Callable[[pa.Table, Path], None]) -> Callable[[Path, Array, Array, str], None]:
    return lambda path, proba, labels, key: save(
        table(proba, labels, {"probs": "prob_", "logits": "logit_"}[key]), path
    )


def save_stream(of: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, of.schema) as writer:
        writer.write_table(of, max_chunksize=2)


def write_lists(save: Callable[[pa.Table, Path], None]) -> Callable[[Path, Array, Array, str], None]:
    def writer(path: Path, proba: Array, labels: Array, key: str) -> None:
        flat = pa.array(proba.ravel())
        vectors = pa.FixedSizeListArray.from_arrays(flat, proba.shape[1])
        save(pa.table({"label": labels, key: vectors}), path)

    return writer


def write_torch(path: Path, proba: Array, labels: Array, key: str) -> None:
    torch.save({key: torch.from_numpy(proba.copy()), "labels": torch.from_numpy(labels.copy())}, path)


def save_parquet(of: pa.Table, path: Path) -> None:
    parquet.write_table(of, path, row_group_size=2)


def save_feather(of: pa.Table, path: Path) -> None:
    feather.write_feather(of, str(path), chunksize=2)


def save_json(of: pa.Table, path: Path) -> None:
    """Objects, one per line where the name says so, else in a list; text as JSON spells floats comes back exactly."""
    rows = [json.dumps(row) for row in of.to_pylist()]
    path.write_text("\n".join(rows) if path.suffix == ".jsonl" else f"[{','.join(rows)}]")


def save_packed(of: pa.Table, path: Path) -> None:
    packed = {".gz": "gzip", ".zst": "zstd"}[path.suffix]
    with pa.CompressedOutputStream(str(path), packed) as sink:
        arrow_csv.write_csv(of, sink)


def save_tsv(of: pa.Table, path: Path) -> None:
    arrow_csv.write_csv(of, path, arrow_csv.WriteOptions(delimiter="\t"))


WRITERS: dict[str, Callable[[Path, Array, Array, str], None]] = {
    "a.npz": write_npz,
    "packed.npz": lambda path, proba, labels, key: write_npz(path, proba, labels, key, np.savez_compressed),
    "a.csv": write_wide(lambda of, path: arrow_csv.write_csv(of, path)),
    "a.tsv": write_wide(save_tsv),
    "a.parquet": write_wide(save_parquet),
    "lists.pq": write_lists(save_parquet),
    "a.feather": write_wide(save_feather),
    "lists.arrow": write_lists(save_feather),
    "stream.ipc": write_wide(save_stream),
    "a.json": write_wide(save_json),
    "lists.json": write_lists(save_json),
    "a.jsonl": write_wide(save_json),
    "lists.jsonl": write_lists(save_json),
    "a.csv.gz": write_wide(save_packed),
    "a.csv.zst": write_wide(save_packed),
    "a.pt": write_torch,
    "a.pth": write_torch,
    "a.safetensors": lambda path, proba, labels, key: safetensors.numpy.save_file(
        {key: np.ascontiguousarray(proba), "labels": labels}, path
    ),
}


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def log(path: Path, *records: dict[str, Any]) -> Path:
    return write(path, "\n".join(json.dumps(record) for record in records))


def sample(doc_id: int, target: object, scores: Sequence[float], **more: Any) -> dict[str, Any]:
    return {"doc_id": doc_id, "target": target, "filtered_resps": [[str(v), "False"] for v in scores], **more}
