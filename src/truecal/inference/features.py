"""Segments of rows by their features: values, quantile bins and their pairs, enumerated without looking at labels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array

from ..core.data import shown
from ..core.frames import columns_of
from ..core.result import on_one_line
from ..core.types import Array, Groups

MOST_SEGMENTS = 20_000
ALL_ROWS = "all rows"
_FEW_VALUES = 2  # a numeric column with at most so many values per bin is a list of categories


@dataclass(frozen=True, eq=False)
class Feature:
    """One column: the number of the value or bin of each row, and the title of each number."""

    name: str
    code: Array
    titles: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.titles)


def read_features(features: Any, n: int, bins: int, min_rows: int) -> tuple[Feature, ...]:
    """The columns of a data frame, a mapping of names to columns, or an array."""
    found = tuple(_feature(on_one_line(name), column, n, bins, min_rows) for name, column in columns_of(features))
    if not found:
        raise ValueError("features is empty: expected at least one column")
    return found


def _feature(name: str, column: Any, n: int, bins: int, min_rows: int) -> Feature:
    if hasattr(column, "to_numpy"):
        column = column.to_numpy()
    values = np.asarray(column)
    if values.shape != (n,):
        raise ValueError(f"feature {shown(name)} must have one value per row, shape ({n},), got shape {values.shape}")
    values, missing = _values(values, name)
    code = np.zeros(n, dtype=np.intp)
    kept = values[~missing]
    numeric = values.dtype.kind in "iufM"
    distinct, number, count = np.unique(kept, return_inverse=True, return_counts=True)
    if numeric and len(distinct) > _FEW_VALUES * bins:
        edges = np.unique(np.sort(kept)[[len(kept) * j // bins - 1 for j in range(1, bins)]])
        edges = edges[edges < distinct[-1]]
        code[~missing] = np.searchsorted(edges, kept, side="left")
        titles = _bin_titles(name, edges)
    else:
        often = count >= min_rows  # a value of fewer rows is in no segment
        place = np.where(often, np.cumsum(often) - 1, int(often.sum()))
        code[~missing] = place[number.reshape(-1)]
        titles = [f"{name} = {_value(value)}" for value in distinct[often]] + ["" for _ in range(int(not often.all()))]
    if missing.any():
        code[missing] = len(titles)
        titles = [*titles, f"{name} is missing"]
    return Feature(name, code, tuple(titles))


def _values(values: Array, name: str) -> tuple[Array, Array]:
    """Numbers, dates or text, and which are missing."""
    kind = values.dtype.kind
    if kind in "fM":
        return values, np.isnan(values) if kind == "f" else np.isnat(values)
    if kind in "biuUS":
        return values, np.zeros(len(values), dtype=bool)
    if kind not in "OT":
        raise TypeError(f"feature {shown(name)} must hold numbers, dates or text, got dtype {values.dtype}")
    each = values.tolist()
    missing = np.array([x is None or x != x or type(x).__name__ == "NAType" for x in each], dtype=bool)
    known = [x for x, gone in zip(each, missing, strict=True) if not gone]
    if known and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in known):
        numbers = np.array([np.nan if gone else float(x) for x, gone in zip(each, missing, strict=True)])
        return numbers, missing
    return np.array(["" if gone else str(x) for x, gone in zip(each, missing, strict=True)]), missing


def _value(value: Any) -> str:
    if isinstance(value, np.datetime64):
        return str(value.astype("M8[s]")).removesuffix("T00:00:00")
    if not isinstance(value, (float, np.floating)):
        return on_one_line(value)
    size = abs(float(value))
    return f"{value:.4g}" if size < 1e4 else f"{value:.0f}" if size < 1e15 else f"{value:.3e}"


def _bin_titles(name: str, edges: Array) -> list[str]:
    if not len(edges):
        return [name]
    ends = [_value(edge) for edge in edges]
    inner = [f"{low} < {name} ≤ {high}" for low, high in pairwise(ends)]
    return [f"{name} ≤ {ends[0]}", *inner, f"{name} > {ends[-1]}"]


# -- the segments and sums over them -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Grouping:
    """Segments, which may overlap, and how values of rows are summed over each of them.

    A row is in one value of each feature and of each pair. Sums go by joint cells of up to four features first, of
    which all their pairs are made: that is a fifth of the additions.
    """

    names: tuple[str, ...]
    rows: Array
    joints: tuple[Array, ...]
    """The joint cell of each row, once for each group of features."""
    members: tuple[csr_array, ...]
    """(segments, joint cells): which cells make a segment."""

    def sums(self, values: Array) -> Array:
        """(segments, columns): the sums of (rows, columns) over the rows of each segment."""
        n = len(values)
        one, ends = np.ones(n), np.arange(n + 1, dtype=np.int32)
        total = np.zeros((len(self.names), values.shape[1]))
        for code, member in zip(self.joints, self.members, strict=True):
            cells = csc_array((one, code, ends), shape=(member.shape[1], n))
            total += member @ (cells @ values)
        return total

    def by_cluster(self, values: Array, clusters: Groups) -> csr_array:
        """(segments, clusters): the sums of one number per row over the rows of each segment and cluster."""
        total = csr_array((len(self.names), clusters[1]))
        for code, member in zip(self.joints, self.members, strict=True):
            total = total + member @ csr_array((values, (code, clusters[0])), shape=(member.shape[1], clusters[1]))
        return total

    def rows_of(self, segment: int) -> Array:
        """Which rows are in a segment."""
        inside = np.zeros(len(self.joints[0]), dtype=bool)
        for code, member in zip(self.joints, self.members, strict=True):
            cells = member.indices[member.indptr[segment] : member.indptr[segment + 1]]
            if len(cells):
                chosen = np.zeros(member.shape[1], dtype=bool)
                chosen[cells] = True
                inside |= chosen[code]
        return inside


def group_rows(features: tuple[Feature, ...], n: int, pairs: bool, min_rows: int) -> Grouping:
    """Every segment of at least `min_rows` rows; pairs that are one of their values again are left out."""
    each = range(len(features))
    wanted: list[tuple[int, ...]] = [(f,) for f in each]
    wanted += list(combinations(each, 2)) if pairs else []
    joints = _joints(features, n, pairs)
    names, sizes = [ALL_ROWS], [n]
    codes: list[Array] = []
    members: list[csr_array] = []
    own = [np.bincount(feature.code, minlength=feature.size) for feature in features]
    done: set[tuple[int, ...]] = set()
    entries: list[tuple[list[Array], list[Array], int]] = []
    for joint in joints:
        shape = tuple(features[f].size for f in joint)
        flat = np.ravel_multi_index(tuple(features[f].code for f in joint), shape)
        used, code, count = np.unique(flat, return_inverse=True, return_counts=True)
        parts = np.unravel_index(used, shape)
        segment, cell = [], []
        if not entries:  # all rows
            segment, cell = [np.zeros(len(used), np.intp)], [np.arange(len(used))]
        for chosen in (w for w in wanted if w not in done and set(w) <= set(joint)):
            done.add(chosen)
            inner = tuple(features[f].size for f in chosen)
            value = np.ravel_multi_index(tuple(parts[joint.index(f)] for f in chosen), inner)
            rows = np.bincount(value, count, int(np.prod(inner))).astype(np.intp)
            number = np.full(len(rows), -1)
            for place in np.flatnonzero((rows >= min_rows) & (rows < n)):
                at = np.unravel_index(int(place), inner)
                titles = [features[f].titles[int(v)] for f, v in zip(chosen, at, strict=True)]
                whole = len(chosen) == 2 and any(own[f][v] == rows[place] for f, v in zip(chosen, at, strict=True))
                if all(titles) and not whole:
                    number[place] = len(names)
                    names.append(" & ".join(titles))
                    sizes.append(int(rows[place]))
            inside = number[value] >= 0
            segment.append(number[value][inside])
            cell.append(np.flatnonzero(inside))
            if len(names) > MOST_SEGMENTS:
                raise ValueError(
                    f"the features make more than {MOST_SEGMENTS:,} segments: pass pairs=False, fewer columns, "
                    "fewer bins or a larger min_rows"
                )
        codes.append(code.reshape(-1).astype(np.int32))
        entries.append((segment, cell, len(used)))
    for segment, cell, used_cells in entries:
        both = np.concatenate(segment), np.concatenate(cell)
        members.append(csr_array((np.ones(len(both[0])), both), shape=(len(names), used_cells)))
    return Grouping(tuple(names), np.array(sizes), tuple(codes), tuple(members))


def _joints(features: tuple[Feature, ...], n: int, pairs: bool) -> list[tuple[int, ...]]:
    """Groups of features whose joint cells give every wanted one: pairs of blocks of two features, or of one."""
    each = range(len(features))
    if not pairs or len(features) == 1:
        return [(f,) for f in each]
    widest = np.prod(sorted((feature.size for feature in features), reverse=True)[:4], dtype=float)
    step = 2 if widest <= n / 4 and len(features) > 3 else 1
    blocks = [tuple(each[i : i + step]) for i in range(0, len(features), step)]
    return [one + two for one, two in combinations(blocks, 2)]
