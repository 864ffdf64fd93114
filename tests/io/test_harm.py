"""Files that mean harm: nothing is run, nothing is unpacked without bound."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from prediction_files import LABELS, PROBA, npz, refusal, save_parquet, write
from truecal.io import read_predictions


class Trap:
    """Unpickling it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.mark),))


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    trap = np.array([Trap(mark)] * 3, dtype=object)
    np.savez(tmp_path / "a.npz", probs=PROBA, labels=trap)
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    torch.save({"probs": torch.tensor(PROBA), "labels": Trap(mark)}, tmp_path / "a.pt")
    torch.save(
        {"probs": torch.tensor(PROBA), "labels": Trap(mark)}, tmp_path / "b.pth", _use_new_zipfile_serialization=False
    )
    write(tmp_path / "c.npy", pickle.dumps(Trap(mark)))
    write(tmp_path / "c.pt", pickle.dumps(Trap(mark)))
    assert "pickled objects, which are never loaded" in refusal(tmp_path / "a.npz")
    assert "pickled objects, which are never loaded" in refusal(tmp_path / "a.npy")
    assert "pickled code, which is never run" in refusal(tmp_path / "a.pt")
    for name in ("b.pth", "c.npy", "c.pt"):
        assert "it starts like a pickle, which is never loaded" in refusal(tmp_path / name)
    assert not mark.exists()
    with pytest.raises(ValueError, match="pickle"):  # the trap is real: numpy would have to be allowed to spring it
        np.load(tmp_path / "a.npz")["labels"]
    np.load(tmp_path / "a.npz", allow_pickle=True)["labels"]
    assert mark.exists()


def npy_header(shape: str, descr: str = "<f4", padding: int = 0) -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}".encode() + b" " * padding + b"\n"
    return b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header


def archive(path: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("probs.npy", content)
    return path


def test_headers_that_declare_too_much(tmp_path: Path) -> None:
    huge = npy_header("(1000000000000, 1000)")
    assert "expected 4000000000000000 bytes of data" in refusal(write(tmp_path / "a.npy", huge))
    assert "expected 4000000000000000 bytes of data" in refusal(archive(tmp_path / "a.npz", huge))
    long = npy_header("(1, 2)", padding=10**6)
    assert "expected a numpy array, but it cannot be read" in refusal(write(tmp_path / "b.npy", long))
    deep = b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 9000
    assert "expected a numpy array, but it cannot be read" in refusal(write(tmp_path / "c.npy", deep))
    assert "uses another compression" in refusal(archive(tmp_path / "d.npz", huge, zipfile.ZIP_LZMA))
    assert "expected a safetensors header within the file" in refusal(
        write(tmp_path / "a.safetensors", (10**15).to_bytes(8, "little") + b"{}")
    )


def test_an_archive_that_grows_a_thousandfold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truecal.io.limits.SMALL", 1 << 20)  # the limit itself, at a size a test can write
    monkeypatch.setattr("truecal.io.limits.available_memory", lambda: 1 << 23)
    proba = np.zeros((1 << 20, 2), dtype=np.float32)
    proba[:, 0] = 1
    np.savez_compressed(tmp_path / "a.npz", probs=proba)
    assert "may be used), with key 'probs' the file of " in refusal(tmp_path / "a.npz")
    columns = {"label": np.zeros(1 << 20, dtype=np.int8), "prob_a": proba[:, 0], "prob_b": proba[:, 1]}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet", compression="zstd")
    assert "with a group of rows the file of " in refusal(tmp_path / "a.parquet")


def test_tensors_larger_than_their_file(tmp_path: Path) -> None:
    torch.save({"probs": torch.zeros(1).expand(10**9, 1000), "labels": torch.tensor(LABELS)}, tmp_path / "a.pt")
    assert "expected a tensor within the file's size, 'probs' declares (1000000000, 1000)" in refusal(tmp_path / "a.pt")
    torch.save({"probs": torch.eye(3).to_sparse()}, tmp_path / "b.pt")
    assert "expected plain dense tensors" in refusal(tmp_path / "b.pt")
    torch.save({"probs": torch.tensor(PROBA), "epoch": 3}, tmp_path / "c.pt")
    assert "expected tensors only, the key 'epoch' holds a int" in refusal(tmp_path / "c.pt")
    torch.save(3, tmp_path / "d.pt")
    assert "expected a tensor or a dict of tensors, got a int" in refusal(tmp_path / "d.pt")
    torch.save([torch.zeros(1).expand(10**6, 1000)] * 3, tmp_path / "e.pt")
    assert "expected tensors within the file's size" in refusal(tmp_path / "e.pt")


@pytest.mark.slow
def test_absurd_text(tmp_path: Path) -> None:
    assert "expected at most 100000 columns" in refusal(write(tmp_path / "a.csv", ",".join(map(str, range(200_000)))))
    assert refusal(write(tmp_path / "b.csv", "label,prob_a,prob_b\n" + "x" * (1 << 20) + ",1,0\n"))
    assert "expected 3 cells at row 0" in refusal(write(tmp_path / "c.csv", "label,prob_a,prob_b\n" + "1," * 100_000))
    assert "is longer" in refusal(write(tmp_path / "d.csv", "a" * (1 << 24)))
    quoted = 'label,prob_a,prob_b\na,0.5,0.5\n"' + "b,0.5,0.5\n" * 50_000
    assert refusal(write(tmp_path / "e.csv", quoted))


def test_names_twice_in_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    content = io.BytesIO()
    np.save(content, PROBA)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("probs.npy", content.getvalue())
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("probs.npy", content.getvalue())
    assert "expected every array name once, 'probs.npy' appears 2 times" in refusal(path)


def test_a_damaged_byte_in_an_archive_is_noticed(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", probs=PROBA, labels=LABELS)
    content = bytearray(path.read_bytes())
    at = content.index(PROBA.tobytes())
    content[at : at + 16] = np.array([0.75, 0.25]).tobytes()  # still probabilities: only the checksum can tell
    assert "CRC" in refusal(write(path, bytes(content)))


def test_advice_to_trust_a_file_is_never_passed_on(tmp_path: Path) -> None:
    long = write(tmp_path / "a.npy", b"\x93NUMPY\x02\x00" + (20_000).to_bytes(4, "little") + b" " * 20_000)
    assert "its header is longer than that of any plain array" in refusal(long)
    torch.save({"probs": torch.ones(2, 2), "x": Path("y")}, tmp_path / "a.pt")
    for message in (refusal(long), refusal(tmp_path / "a.pt")):
        assert not any(word in message for word in ("allow_pickle", "weights_only", "max_header_size", "trust"))


def test_predictions_that_cannot_be_used_are_described(tmp_path: Path) -> None:
    deep = npz(tmp_path / "a.npz", probs=np.full((2, 2, 2), 0.5), labels=LABELS, features=PROBA)
    assert refusal(deep).startswith("cannot tell which axis of 'probs', shape (2, 2, 2), has the classes")
    words = npz(tmp_path / "b.npz", probs=PROBA.astype(str), labels=LABELS)
    assert refusal(words).endswith("in the key 'probs', it holds text of shape (3, 2)")
    save_parquet(pa.table({"label": LABELS, "probs": ["a", "b", "c"]}), tmp_path / "c.parquet")
    assert refusal(tmp_path / "c.parquet").endswith("in the column 'probs', it holds values of type string")
    flat = npz(tmp_path / "d.npz", probs=PROBA.astype(str), labels=LABELS, features=PROBA)
    assert read_predictions(flat, proba_columns="features").n == 3  # a word of the caller settles it


def test_messages_name_the_options_of_the_command_line_too(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[2.0, -1.0]]))
    assert "logits=True (--logits)" in refusal(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", LABELS)
    assert "labels= (--labels)" in refusal(tmp_path / "b.npy")
    both = npz(tmp_path / "c.npz", probs=PROBA, logits=PROBA, labels=LABELS)
    assert "logits=True (--logits)" in refusal(both) and "proba_columns (--columns)" in refusal(both)
    labels = npz(tmp_path / "d.npz", probs=PROBA, labels=LABELS, target=1 - LABELS)
    assert "label_column (--label-column)" in refusal(labels)
    assert "drop logits=True (--logits)" in refusal(npz(tmp_path / "e.npz", probs=PROBA, labels=LABELS), logits=True)
    top = write(tmp_path / "f.csv", "prediction,confidence\na,0.5\n")
    assert "label_column (--label-column), or give labels (--labels)" in refusal(top)


def test_notes_show_columns_that_are_no_classes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "label,cat,dog,eel,fox,age\ncat,1,2,3,4,50\ndog,1,2,3,4,60\neel,3,2,1,0,7\n")
    notes = read_predictions(path, logits=True).notes
    assert any("5 columns 'cat', 'dog', 'eel', 'fox', 'age' (the numeric columns besides" in note for note in notes)
    assert "2 of 5 classes never occur as a label: 'fox', 'age'" in notes
    wide = npz(tmp_path / "b.npz", logits=np.zeros((2, 20)), labels=np.array([0, 1]))
    assert any(note.endswith("10, 11, 12, 13, … (18 in all)") for note in read_predictions(wide).notes)
    full = read_predictions(npz(tmp_path / "c.npz", probs=PROBA, labels=LABELS))
    assert not any("never" in note for note in full.notes)
