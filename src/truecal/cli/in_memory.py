"""Tables that are read as a whole: the source of most calls."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Self

from truecal.io.failures import failure, quote
from truecal.kinds.inputs import Progress

from .common import read
from .loading import Loaded
from .sources import Asked, Measured, measure_models
from .two_tables import TIMES


@dataclass(frozen=True)
class InMemory:
    """Files of one label per row, of all models."""

    asked: Asked
    loaded: Loaded
    rows: int = 0

    @classmethod
    def of(cls, asked: Asked) -> Self:
        asked.refuse(["--thresholds", "--levels"], "needs --task distribution")
        asked.refuse(TIMES, "needs --task survival")
        loaded = read(asked.files, asked.reading)
        if (column := loaded.first.stacked) and asked.measuring.by is None:
            path = loaded.first.path
            how = f"run: truecal evaluate {shlex.quote(path)} --by {shlex.quote(column)}"
            raise failure(path, f"the column {quote(column)} names several models, which have as many rows each: {how}")
        return cls(asked, loaded)

    def measure(self, progress: Progress | None) -> Measured:
        asked, loaded = self.asked, self.loaded
        arguments: dict[str, Any] = loaded.arguments(asked.measuring)
        if asked.one:
            if asked.one_model.segments is not None:
                arguments["features"] = loaded.features(asked.one_model.segments)
            arguments["advise"] = asked.advise
        y_true, names = loaded.named_labels
        result = measure_models(asked, y_true, loaded.models, arguments | names, progress)
        return Measured(result.with_notes(loaded.notes), loaded.classes)
