"""Rows of two files matched by an identifier that both hold, whatever the order of the rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from truecal.io.failures import FileError, failure, listing, path_text, quote
from truecal.io.label_values import Values, numbers_if_whole
from truecal.io.prediction_file import Indices
from truecal.io.roles import is_identifier, is_pandas_index

ID_OPTION = "id_column (--id)"
AS_THEY_ARE = "if the rows of both files are in the same order, pass id_column=False (--no-id)"
IdColumn = str | Literal[False] | None
"""The column to match rows by: a name, None to look for one, False to take rows in the order they are in."""

_SHOWN = 3  # identifiers in a message


@dataclass(frozen=True)
class Keys:
    """The columns or keys of a file that rows can be matched by. `names` are tried; `others` have to be named."""

    path: str
    what: str
    names: tuple[str, ...]
    others: tuple[str, ...]
    read: Callable[[str], Values]

    def values(self, name: str) -> Values:
        if name not in (*self.names, *self.others):
            found = listing((*self.names, *self.others))
            raise failure(self.path, f"expected a {self.what} named {quote(name)} to match rows by, found {found}")
        values = self.read(name)
        if values.ndim != 1:
            raise failure(self.path, f"expected one identifier per row in the {self.what} {quote(name)}")
        return values


@dataclass(frozen=True)
class Match:
    """Where each row of the first file is in the second, and the sentence that reports it."""

    order: Indices
    note: str
    moved: int


def match_rows(ours: Keys | None, theirs: Keys | None, wanted: IdColumn = None) -> Match | None:
    """The order that puts the rows of the second file in that of the first; None where nothing says that they differ.

    The column is the one that is named; else one of the same name in both files whose values are unique in each, those
    with the name of an identifier first. Identifiers that do not match one to one raise a FileError.
    """
    if wanted is False or ours is None or theirs is None:
        return None
    if wanted is not None:
        return _matched(ours, theirs, wanted, *_one_coding(ours.values(wanted), theirs.values(wanted)))
    problem: FileError | None = None
    for name in sorted((n for n in ours.names if n in theirs.names), key=lambda n: not is_identifier(n)):
        likely = is_identifier(name)
        try:
            mine, others = _one_coding(ours.values(name), theirs.values(name))
            if np.array_equal(mine, others) and _repeated(mine) is not None:
                continue  # clusters, in the same order
            match = _matched(ours, theirs, name, mine, others)
            if match.moved and mine.dtype.kind in "iu" and (is_pandas_index(name) or name == "index"):
                raise _ambiguous(theirs, name, match)
            return match
        except FileError as error:  # another column may do
            if likely and problem is None:
                problem = FileError(f"{error}; {AS_THEY_ARE}")  # unless another column matches
    if problem is not None:
        raise problem
    return None


def _ambiguous(theirs: Keys, name: str, match: Match) -> FileError:
    """The index of a data frame may have been numbered again after the rows were shuffled."""
    how = f"to match rows by it, pass {ID_OPTION} {quote(name)}"
    orders = f"{match.moved} of {len(match.order)} rows are in another place"
    return failure(theirs.path, f"the index {quote(name)} of the files is in different orders, {orders}: {how}")


def _one_coding(ours: Values, theirs: Values) -> tuple[Values, Values]:
    """Identifiers that can be compared: numbers on both sides if all are, else text; 007 and 7 stay two."""
    pair = [numbers_if_whole(values) for values in (ours, theirs)]
    kept = all(n is v or len(np.unique(n)) == len(np.unique(v)) for n, v in zip(pair, (ours, theirs), strict=True))
    if kept and all(values.dtype.kind in "iub" for values in pair):
        return pair[0].astype(np.int64), pair[1].astype(np.int64)
    first, second = (np.array([str(v) for v in values.tolist()], dtype=object) for values in (ours, theirs))
    return first, second


def _repeated(values: Values) -> tuple[int, int] | None:
    """The first two rows with the same identifier."""
    order = np.argsort(values, kind="stable")
    twice = np.flatnonzero(values[order][1:] == values[order][:-1])
    if len(twice) == 0:
        return None
    first = twice[np.argmin(order[twice + 1])]
    return int(order[first]), int(order[first + 1])


def _matched(ours: Keys, theirs: Keys, name: str, mine: Values, others: Values) -> Match:
    for keys, values in ((ours, mine), (theirs, others)):
        if (twice := _repeated(values)) is not None:
            where = f"{quote(values[twice[0]])} is at row {twice[0]} and at row {twice[1]}"
            repeats = len(values) - len(np.unique(values))
            raise failure(keys.path, f"duplicate {quote(name)}, so rows cannot be matched: {where} ({repeats} repeats)")
    by_value, by_mine = np.argsort(others, kind="stable"), np.argsort(mine, kind="stable")
    sorted_others, order = others[by_value], np.empty(len(mine), dtype=np.intp)
    place = np.minimum(np.searchsorted(sorted_others, mine[by_mine]), len(others) - 1)
    order[by_mine] = np.where(sorted_others[place] == mine[by_mine], by_value[place], -1)
    missing = np.flatnonzero(order < 0)
    found = np.zeros(len(others), dtype=np.bool_)
    found[order[order >= 0]] = True
    extra = np.flatnonzero(~found)
    if len(missing) or len(extra):
        parts = [
            f"{len(rows)} of {len(values)} only in {path_text(keys.path)} ({_examples(values, rows)})"
            for keys, values, rows in ((ours, mine, missing), (theirs, others, extra))
            if len(rows)
        ]
        raise failure(theirs.path, f"the {quote(name)} values differ from those of {ours.path}: {' and '.join(parts)}")
    moved = int(np.count_nonzero(order != np.arange(len(order))))
    how = f"{moved} of {len(order)} were in another place" if moved else "the order is the same"
    return Match(order, f"rows of {path_text(theirs.path)} matched by {quote(name)} ({how})", moved)


def _examples(values: Values, rows: Sequence[int] | Indices) -> str:
    shown = ", ".join(f"{quote(values[row])} at row {row}" for row in rows[:_SHOWN])
    return shown + (", …" if len(rows) > _SHOWN else "")


def keys_of(
    path: str, what: str, names: Collection[str], read: Callable[[str], Values], used: Collection[str], named: bool
) -> Keys:
    """The keys of an opened file: columns without names, and those that hold labels or predictions, are not tried."""
    free = tuple(name for name in names if named and name not in used)
    return Keys(path, what, free, tuple(name for name in names if name not in free), read)
