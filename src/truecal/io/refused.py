"""Files that hold predictions and are not opened: pickles and pointers; each message ends with what to run instead."""

from __future__ import annotations

import itertools
import os
import pickletools
import re
import shlex
from pathlib import Path

from truecal.io.failures import FileError, failure

PICKLES = (".pkl", ".pickle", ".joblib")
LFS = b"version https://git-lfs.github.com/spec/"
_TUPLE = re.compile(rb"[\x85-\x87t](?:\x94|q.|r....)?\.$", re.DOTALL)  # how a pickle of a tuple ends
_PULL = ("git", "lfs", "pull", "--include")
_PEEKED = 20_000  # bytes of a pickle that are looked at, not run


def pickle_error(path: str) -> FileError:
    """What to run instead of loading a pickle, by what it seems to hold; nothing of it is executed."""
    place, stem = Path(path), Path(path).with_suffix("")
    words, first = _peek(place)
    if place.suffix.lower() == ".joblib":
        opened = f"import joblib; x = joblib.load({_text(place)})"
    elif "pandas" in words:
        opened = f"import pandas as pd; x = pd.read_pickle({_text(place)})"
    else:
        opened = f'import pickle; x = pickle.load(open({_text(place)}, "rb"))'
    if "pandas" in words:
        saved = f"x.to_csv({_text(f'{stem}.csv')}, index=False)"
    else:
        how = "**x" if first == "EMPTY_DICT" else "*x" if first == "TUPLE" else "probs=x"
        saved = f"import numpy as np; np.savez({_text(f'{stem}.npz')}, {how})"
    return failure(
        path,
        "this is a pickle file. Loading one can run code, so truecal never does. If you trust it, "
        f"convert it: {shlex.join(('python', '-c', f'{opened}; {saved}'))}",
    )


def _text(path: object) -> str:
    """A path as code of Python."""
    return f'"{_escaped(path)}"'


def _escaped(path: object) -> str:
    """A path between the double quotes of Python or R, which are within the single ones of a shell.

    >>> from truecal.io.refused import _escaped
    >>> print(_escaped("a'; touch x; '.pkl"))
    a\\u0027; touch x; \\u0027.pkl
    """

    def one(char: str) -> str:
        if char.isascii() and char.isprintable() and char not in "\"'\\`$":
            return char
        return f"\\u{ord(char):04x}" if ord(char) < 1 << 16 else f"\\U{ord(char):08x}"

    return "".join(map(one, str(path)))


def _peek(path: Path) -> tuple[str, str]:
    """The texts in the first bytes of a pickle, and the operation that makes the first object."""
    texts, first = [], ""
    try:
        with open(path, "rb") as stream:
            start = stream.read(_PEEKED)
            stream.seek(max(0, os.path.getsize(path) - 8))
            first = "TUPLE" if _TUPLE.search(stream.read()) else ""
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
        f"this is a git-LFS pointer, and its data were not downloaded: run {shlex.join((*_PULL, Path(path).name))}",
    )


def converted_error(path: str, line: str) -> FileError:
    """A file of a format that another program converts."""
    place = Path(path)
    run = line.format(path=_escaped(place), stem=_escaped(place.with_suffix("")))
    return failure(path, f"expected a file of another format than {place.suffix}: convert it with {run}")


_DOWNLOADS = {"s3": "aws s3 cp {url} .", "gs": "gcloud storage cp {url} .", "hf": "hf download {url}"}


def missing_error(path: str) -> FileError:
    """A file that is not there, or that is not on this machine."""
    remote = re.match(r"(https?|ftp|s3|gs|abfss?|hf):/+(.+)", path)
    if remote is None:
        return failure(path, "file not found")
    url, name = f"{remote[1]}://{remote[2]}", remote[2].rpartition("/")[2]
    line = _DOWNLOADS.get(remote[1], "curl -L -o {name} {url}").format(url=shlex.quote(url), name=shlex.quote(name))
    return failure(path, f"only files on this machine are read: run {line}, then give {name}")
