"""Three models of one world, measured once for all tests of evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inference_cases import softmax, world
from truecal.results.compare import compare
from truecal.results.comparison import Comparison


@pytest.fixture(scope="session")
def data() -> tuple[Any, dict[str, Any]]:
    z, y = world()
    rng = np.random.default_rng(1)
    models = {"true": softmax(z), "sharp": softmax(2 * z), "noisy": softmax(z + 0.7 * rng.normal(size=z.shape))}
    return y, models


@pytest.fixture(scope="session")
def comparison(data: Any) -> Comparison:
    return compare(*data, n_bins=(3, 5, 20), n_resamples=99)
