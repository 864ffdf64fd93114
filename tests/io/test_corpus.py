"""Files of tools and of people, read by the command that a person types first, with numbers computed by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from closeness import assert_close
from file_corpus import CLASS, THREE, TOP, TWINS, D, P, Y
from truecal.cli.loading import Loaded, load
from truecal.cli.shared_options import Reading
from truecal.io import FileError


def positive_class(loaded: Loaded) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities of the class that is called 1, yes or true."""
    (model,), y = loaded.models.values(), np.asarray(loaded.y_true)
    if model.ndim == 1:
        return y, model
    names = [str(name).lower() for name in loaded.classes or ("0", "1")]
    one = next(
        (
            j
            for j, name in enumerate(names)
            if any(w in name for w in ("yes", "true", "pos", "dog", "democrat", "approve"))
        ),
        1,
    )
    one = next((j for j, name in enumerate(names) if name.endswith("1")), one)
    return (y == one).astype(int), model[:, one]


@pytest.mark.parametrize("name", TWINS)
def test_a_file_is_read_as_its_owner_means_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    twin = TWINS[name]
    twin.write(Path(name))
    if twin.refused:
        with pytest.raises(FileError) as caught:
            load([Path(name)], Reading(**twin.options))
        assert twin.refused in str(caught.value)
        return
    loaded = load([Path(name)], Reading(**twin.options))
    (model,) = loaded.models.values()
    if twin.kind == "confidence":
        assert_close(model.confidence, TOP)
        assert np.array_equal(model.correct, D == Y)
    elif twin.kind == "soft":
        shares = np.asarray(twin.columns.get("label", twin.columns.get("won")), dtype=float)
        assert_close(loaded.y_true[:, 1], shares)
        assert_close(model[:, 1], P)
    elif twin.kind == "first class":
        assert np.array_equal(loaded.y_true, CLASS == 0)
        assert_close(model, THREE[:, 0])
    elif twin.kind == "second class":
        assert np.array_equal(loaded.y_true, 1 - Y)
        assert_close(model[:, 1], 1 - P)
    elif twin.kind == "sorted":
        assert_close(model.confidence, np.tile(TOP, 15))
    elif twin.kind == "halved":
        assert np.array_equal(loaded.y_true, Y)
        assert_close(model, P / 2.1)
    elif twin.kind == "stated":
        assert_close(model.confidence, P)
        assert np.array_equal(model.correct, Y == 1)
    elif twin.kind == "classes":
        assert loaded.classes is None or len(loaded.classes) == 3
        accuracy = (model.argmax(axis=1) == loaded.y_true).mean()
        assert_close(accuracy, (THREE.argmax(axis=1) == CLASS).mean())
        brier = ((model - np.eye(3)[loaded.y_true]) ** 2).sum(axis=1).mean()
        assert_close(brier, ((THREE - np.eye(3)[CLASS]) ** 2).sum(axis=1).mean(), tolerance=1e-9)
    else:
        y, p = positive_class(loaded)
        assert_close(((p > 0.5) == y).mean(), ((P > 0.5) == Y).mean())
        assert_close(((p - y) ** 2).mean(), ((P - Y) ** 2).mean(), tolerance=1e-9)
        assert np.array_equal(y, Y)
