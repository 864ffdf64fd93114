"""Every kind of prediction from every source with every slice, as numbers and texts; `python tests/source_worlds.py`
stores them in goldens/sources.json, and a change of the code shows there what it changes."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import truecal as tc
from answer_worlds import arguments
from truecal.render.terminal import to_csv
from truecal.scale.stream import compare_streams

GOLDEN = Path(__file__).parent / "goldens" / "sources.json"
ROWS, BINS, DRAWS = 96, 4, 39
SLICES = ("plain", "weights", "groups", "folds", "by", "two models")
ERRORS = {
    "one column": "binary",
    "two columns": "binary",
    "classes": "classwise",
    "top label": "top_label",
    "ordered": "ordinal",
    "multilabel": "labelwise",
    "numbers": "distribution",
    "images": "classwise",
    "survival": "survival",
}
"""The kinds of prediction besides sampled answers, and the error that streams and queries measure."""
ECE = {"one column": "binary_l1", "two columns": "binary_l1", "top label": "top_label_l1"}
ECE |= {"classes": "confidence_l1", "ordered": "confidence_l1", "images": "confidence_l1"}
KINDS = (*ERRORS, "sampled answers")
SOURCES = ("memory", "stream", "file", "SQL")


@cache
def world(kind: str) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Outcomes, the predictions of two models, and the options of `evaluate`."""
    named = {"one column": "binary", "two columns": "binary", "classes": "multiclass", "top label": "top"}
    named |= {"numbers": "distribution", "images": "multiclass", "sampled answers": "top"}
    known = named.get(kind, kind)
    y, p, options = arguments(known, ROWS, sharpen=1.7)
    other = arguments(known, ROWS, sharpen=1.1)[1]
    if kind == "two columns":
        y, p, other = y.astype(int), *(np.column_stack([1 - one, one]) for one in (p, other))
    if kind == "images":
        y = np.array([options["labels"].index(name) for name in y]).reshape(6, 4, 4)
        p, other = (np.moveaxis(one.reshape(6, 4, 4, -1), -1, 1) for one in (p, other))
        options = {}
    return y, p, other, options


def slices() -> dict[str, Any]:
    """A weight, a group, a fold and a subgroup of each row."""
    rng, row = np.random.default_rng(5), np.arange(ROWS)
    weights, by = rng.uniform(0.5, 2.0, ROWS), np.where(rng.random(ROWS) < 0.5, "north", "south")
    return {"weights": weights, "groups": row // 3, "folds": row % 4, "by": by}


def sliced(kind: str, name: str) -> dict[str, Any]:
    """The option of a slice."""
    if name not in slices():
        return {}
    values = slices()[name]
    return {{"weights": "sample_weight"}.get(name, name): values.reshape(6, 4, 4) if kind == "images" else values}


def errors_of(kind: str) -> list[str]:
    """The errors measured with a slice: fewer than without one."""
    return [ERRORS[kind], *([ECE[kind]] if kind in ECE else [])]


def in_memory(kind: str, slice_: str) -> Any:
    y, p, other, options = world(kind)
    about: dict[str, Any] = {"n_bins": BINS, "n_resamples": DRAWS, **sliced(kind, slice_)}
    if kind == "sampled answers":
        answers, right = sampled()
        return tc.from_samples(answers, reference=right, **about)
    if slice_ != "plain":
        about["errors"] = errors_of(kind)
    if kind == "top label":
        y, p, other = None, tc.TopPredictions(y, p), tc.TopPredictions(y, other)
    call: Any = tc.evaluate if slice_ != "two models" else tc.compare
    return call(y, p if slice_ != "two models" else {"first": p, "second": other}, **about, **options)


def in_a_stream(kind: str, slice_: str) -> Any:
    y, p, other, options = world(kind)
    about = {name: options[name] for name in ("labels", "thresholds") if name in options}
    models = {}
    for name, proba in {"first": p, "second": other}.items():
        models[name] = tc.stream(ERRORS[kind], n_bins=BINS, blocks=8, **about)
        for rows in np.array_split(np.arange(len(p)), 3):
            models[name].update(
                tuple(one[rows] for one in y) if kind == "survival" else y[rows],
                tc.forecasts.normal(proba.mean[rows], proba.sd[rows]) if kind == "numbers" else proba[rows],
                **{name: values[rows] for name, values in sliced(kind, slice_).items()},
            )
    if slice_ == "two models":  # as files of several models are compared
        return compare_streams({name: one.freeze() for name, one in models.items()})
    return models["first"].result()


def in_sql(kind: str, slice_: str) -> Any:
    import ibis
    import pyarrow as pa

    y, p, other, options = world(kind)
    rows = {"id": np.arange(ROWS)} | slices()
    if kind in ("images", "survival", "numbers"):
        y, p, other = np.zeros(ROWS, int), *(np.asarray(one).reshape(ROWS, -1) for one in _as_numbers(p, other))
    columns = [
        [f"{name}{j}" for j in range(1 if one.ndim == 1 else one.shape[1])]
        for name, one in zip("pq", (p, other), strict=True)
    ]
    for names, one in zip(columns, (p, other), strict=True):
        rows |= dict(zip(names, one.reshape(ROWS, -1).T, strict=True))
    y = y[:, 0] if np.ndim(y) == 2 else np.asarray(y)
    rows["y"] = y.astype(int) if y.dtype == bool else y
    table = ibis.duckdb.connect().create_table("rows", pa.table(rows))
    weight, by = "weights" if slice_ == "weights" else None, "by" if slice_ == "by" else None
    about: dict[str, Any] = {"id": "id", "n_bins": BINS, "blocks": 8, "weight": weight, "by": by}
    about |= {"errors": [ERRORS[kind]]} | {name: options[name] for name in ("labels",) if name in options}
    if slice_ in ("groups", "folds"):
        about[slice_] = slice_
    models: list[Any] = [{"confidence": one[0], "correct": "y"} if kind == "top label" else one for one in columns]
    if slice_ == "two models":
        return tc.sql.compare(table, dict(zip(("first", "second"), models, strict=True)), label="y", **about)
    if kind == "top label":
        return tc.sql.evaluate(table, **models[0], **about)
    return tc.sql.evaluate(table, label="y", proba=models[0], **about)


def _as_numbers(*models: Any) -> list[Any]:
    """Forecasts of a number as probabilities."""
    return [one if isinstance(one, np.ndarray) else one.at(np.linspace(-3, 3, 7)) for one in models]


def sampled() -> tuple[Any, Any]:
    """Eight answers to each question, and the right one."""
    y, p, _, _ = world("sampled answers")
    answers = np.where(np.random.default_rng(1).random((ROWS, 8)) < p[:, None], "a", "b")
    return answers, np.where(y, "a", "b")


def write_files(kind: str, folder: Path) -> tuple[list[str], list[str]]:
    """The files of two models, and the options that describe them: csv, npz of images, JSON lines of answers."""
    y, p, other, options = world(kind)
    columns: dict[str, Any] = {}
    given: list[str] = []
    suffix = "csv"
    if kind == "sampled answers":
        suffix, (answers, right) = "jsonl", sampled()
        given += ["--samples", "answers", "--reference", "right"]
    elif kind == "images":
        suffix = "npz"
    elif kind == "survival":
        columns = {"time": y[0], "event": y[1].astype(int)}
        given += ["--task", "survival", "--time", "time", "--event", "event", "--horizons", "1,2,3"]
    elif kind == "multilabel":
        columns = {f"y_{name}": y[:, j].astype(int) for j, name in enumerate(options["labels"])}
        given += ["--task", "multilabel", "--label-column", ",".join(columns)]
        given += ["--columns", ",".join(f"p_{name}" for name in options["labels"])]
    else:
        columns = {"correct" if kind == "top label" else "label": y.astype(int) if y.dtype == bool else y}
        given += ["--task", "ordered"] if kind == "ordered" else []
        given += ["--task", "distribution", "--thresholds", "-3:3:7"] if kind == "numbers" else []
    files = []
    for name, one in zip(("first", "second"), (p, other), strict=True):
        path = folder / f"{name}.{suffix}"
        if suffix == "npz":
            np.savez(path, labels=y, probs=one)
        elif suffix == "jsonl":
            rows = [{"answers": a, "right": r} for a, r in zip(answers.tolist(), right.tolist(), strict=True)]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            _write_csv(path, columns | slices(), kind, one, options)
        files.append(str(path))
    return files, given


def in_a_file(kind: str, slice_: str, folder: Path) -> Any:
    """What `truecal evaluate` or `compare` prints and writes for files."""
    files, given = write_files(kind, folder)
    option = {"weights": "--weights", "groups": "--groups", "folds": "--folds", "by": "--by"}.get(slice_)
    given += [] if option is None else [option, slice_]
    both = slice_ == "two models"
    given += ["--errors", ",".join(errors_of(kind))] if slice_ != "plain" and kind in ERRORS else []
    sizes = ["--bins", str(BINS), "--resamples", str(DRAWS)]
    outputs = ["--json", str(folder / "out.json"), "--csv", str(folder / "out.csv")]
    words = ["compare", *files] if both else ["evaluate", files[0]]
    code, shown = command([*words, *given, *sizes, *outputs])
    found: dict[str, Any] = {"exit": code, "text": shown.replace(str(folder), "FOLDER").split("\n")}
    if code == 0:
        found["csv"] = brief_csv((folder / "out.csv").read_text(encoding="utf-8"))
        told = (folder / "out.json").read_text(encoding="utf-8").replace(str(folder), "FOLDER")
        found["numbers"] = compact(briefer(json.loads(told), slice_))
    return found


def _write_csv(path: Path, columns: dict[str, Any], kind: str, p: Any, options: dict[str, Any]) -> None:
    if kind == "numbers":  # of a normal forecast
        columns = columns | {"mean": p.mean, "std": p.sd}
    else:
        names = {"one column": ["prob"], "top label": ["confidence"], "survival": ["risk_1", "risk_2", "risk_3"]}
        named = names.get(kind) or [f"p_{label}" for label in options.get("labels", range(p.ndim and p.shape[-1]))]
        columns = columns | dict(zip(named, p.reshape(ROWS, -1).T, strict=True))
    rows = zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")


def command(words: Sequence[str]) -> tuple[int, str]:
    """The exit code of a command, and what it wrote to both streams."""
    from truecal.cli import app

    out, err = StringIO(), StringIO()
    with patch.object(sys, "argv", ["truecal", *words]), redirect_stdout(out), redirect_stderr(err):
        code = app.run()
    return code, out.getvalue() + err.getvalue()


MAKE: dict[str, Callable[[str, str], Any]] = {"memory": in_memory, "stream": in_a_stream, "SQL": in_sql}


@cache
def outputs(kind: str, source: str, slice_: str) -> dict[str, Any]:
    """What one combination gives: numbers, texts and notes, or the error."""
    if source == "file":
        with tempfile.TemporaryDirectory() as folder:
            return in_a_file(kind, slice_, Path(folder))
    if kind not in ERRORS and (source != "memory" or slice_ == "two models"):
        return {"error": "no such call"}
    try:
        found = MAKE[source](kind, slice_)
    except (TypeError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    made = {"numbers": compact(briefer(found.to_dict(), slice_)), "text": repr(found).split("\n")}
    if source == "memory" and slice_ in ("plain", "two models"):
        made |= {"page": stripped(found._repr_html_()), "csv": brief_csv(to_csv(found))}
    return made


def brief_csv(text: str) -> list[str]:
    """The lines with numbers of six digits."""
    return re.sub(r"\d\.\d{7,}", lambda found: f"{float(found[0]):.6f}", text).split("\n")


def stripped(page: str) -> str:
    """The words of a page, without its tags and pictures."""
    page = re.sub(r"<(style|script|svg).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def briefer(whole: dict[str, Any], slice_: str) -> dict[str, Any]:
    """The numbers without most of those that a model without the slice has as well."""
    details = ("gaps", "test", "views", "level", "kind", "scale", "reliability", "discrimination")
    nested = [*whole.get("subgroups", {}).values(), *whole.get("evaluations", {}).values()]
    for part in (*nested, *([whole] if slice_ != "plain" else [])):
        for name in (*details, *(("direction", "standing") if nested else ())):
            part.pop(name, None)
    for name in ("errors", "losses") if nested else ():
        whole.pop(name, None)
    return whole


def compact(value: Any) -> Any:
    """Numbers to 10 digits, a list of similar records as one table, and of more than four numbers their count, ends,
    sum and weighted sum."""
    if isinstance(value, dict):
        return {key: compact(one) for key, one in value.items() if one not in (None, [], {}, "")}
    if not isinstance(value, list):
        return float(f"{value:.10g}") if isinstance(value, float) else value
    if len(value) > 1 and all(isinstance(one, dict) for one in value):
        keys = list(dict.fromkeys(key for one in value for key in one))
        keys = [key for key in keys if any(one.get(key) not in (None, [], {}, "") for one in value)]
        return [" ".join(keys), *([compact(one.get(key)) for key in keys] for one in value)]
    if len(value) > 4 and all(isinstance(one, (int, float)) for one in value):
        sums = [sum(value), sum(one * (i + 1) for i, one in enumerate(value))]
        return [len(value), *map(compact, [value[0], value[-1], *map(float, sums)])]
    return [compact(one) for one in value]


def leaves(value: Any, where: str = "") -> dict[str, Any]:
    """Every number and text by its place."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        return {where: value}
    return {place: leaf for key, one in parts for place, leaf in leaves(one, f"{where}.{key}").items()}


def same(one: Any, other: Any) -> bool:
    """Whether two leaves are equal to nine digits."""
    numbers = isinstance(one, float) and isinstance(other, (int, float))
    return bool(abs(one - other) <= 1e-9 * max(1.0, abs(other))) if numbers else one == other


def differing(found: Any, wanted: Any) -> dict[str, Any]:
    """The leaves that are other than those wanted; None where there is none."""
    mine, theirs = leaves(found), leaves(wanted)
    places = [place for place in {**mine, **theirs} if not same(mine.get(place), theirs.get(place))]
    return {place: mine.get(place) for place in places}


def combinations() -> list[tuple[str, str, str]]:
    return [(kind, source, slice_) for kind in KINDS for source in SOURCES for slice_ in SLICES]


def as_stored(kind: str, source: str, slice_: str) -> dict[str, Any]:
    """The outputs of a combination, with a field per part of the numbers; of files what differs from memory, and of two
    columns what differs from one."""
    made = dict(outputs(kind, source, slice_))
    numbers = made.pop("numbers", {})
    other = ("one column", source) if kind == "two columns" else (kind, "memory")
    if numbers and (kind == "two columns" or source == "file") and "numbers" in (wanted := outputs(*other, slice_)):
        numbers = differing(numbers, wanted["numbers"])
    return {**made, **{f"numbers {key}": value for key, value in numbers.items()}}


def written() -> str:
    """One line per field of a combination."""
    blocks = []
    for one in combinations():
        fields = as_stored(*one)
        lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
        blocks.append(f"{json.dumps(' | '.join(one))}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


if __name__ == "__main__":
    GOLDEN.write_text(written(), encoding="utf-8")
