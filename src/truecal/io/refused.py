"""Files that hold predictions and are not opened: pickles and pointers; each message ends with what to run instead."""

from __future__ import annotations

import itertools
import pickletools
from pathlib import Path

from truecal.io.failures import FileError, failure

PICKLES = (".pkl", ".pickle", ".joblib")
LFS = b"version https://git-lfs.github.com/spec/"
_PEEKED = 20_000  # bytes of a pickle that are looked at, not run


def pickle_error(path: str) -> FileError:
    """What to run instead of loading a pickle, by what it seems to hold; nothing of it is executed."""
    place, stem = Path(path), Path(path).with_suffix("")
    words, first = _peek(place)
    if place.suffix.lower() == ".joblib":
        opened = f'import joblib; x = joblib.load("{place}")'
    elif "pandas" in words:
        opened = f'import pandas as pd; x = pd.read_pickle("{place}")'
    else:
        opened = f'import pickle; x = pickle.load(open("{place}", "rb"))'
    if "pandas" in words:
        saved = f'x.to_parquet("{stem}.parquet")'
    else:
        how = "**x" if first == "EMPTY_DICT" else "probs=x"
        saved = f'import numpy as np; np.savez("{stem}.npz", {how})'
    return failure(
        path,
        "this is a pickle file. Loading one can run code, so truecal never does. If you trust it, "
        f"convert it: python -c '{opened}; {saved}'",
    )


def _peek(path: Path) -> tuple[str, str]:
    """The texts in the first bytes of a pickle, and the operation that makes the first object."""
    texts, first = [], ""
    try:
        with open(path, "rb") as stream:
            start = stream.read(_PEEKED)
        for code, argument, _ in itertools.islice(pickletools.genops(start), 200):
            texts += [argument] if isinstance(argument, str) else []
            if not first and code.name in ("EMPTY_DICT", "EMPTY_LIST", "GLOBAL", "STACK_GLOBAL", "DICT", "LIST"):
                first = code.name
    except (OSError, ValueError, IndexError, KeyError, UnicodeError):  # cut short, packed, or no pickle
        pass
    return " ".join(texts), first


def pointer_error(path: str) -> FileError:
    """A file that git-LFS has not downloaded."""
    return failure(
        path,
        f'this is a git-LFS pointer, and its data were not downloaded: run git lfs pull --include "{Path(path).name}"',
    )
