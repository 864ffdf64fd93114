"""Shared strategies and helpers of the tests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "truecal", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("truecal")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20251006)
