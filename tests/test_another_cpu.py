"""The helper that compares floats, and the environment of another CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from another_cpu import plain_cpu
from closeness import assert_close


@dataclass(frozen=True)
class Found:
    name: str
    value: float
    curve: np.ndarray


def test_rounding_is_no_difference():
    third = 1 / 3
    near = third * (1 + 4e-16)
    assert near != third
    assert_close({"a": [near, None, "x"]}, {"a": [third, None, "x"]})
    assert_close(Found("x", near, np.array([near, 0.0])), Found("x", third, np.array([third, 1e-17])))
    assert_close(1e-15, 0.0, scale=1)
    assert_close([np.nan, np.inf], [np.nan, np.inf])


@pytest.mark.parametrize(
    ("found", "wanted", "where"),
    [
        (1 + 1e-11, 1.0, "."),
        (1e-15, 0.0, "."),
        ({"a": (1.0, 2.0)}, {"a": (1.0, 2.1)}, r"\['a'\]\[1\]"),
        ({"a": 1.0}, {"b": 1.0}, "'b'"),
        ([1.0], [1.0, 2.0], "."),
        (Found("x", 1.0, np.ones(2)), Found("y", 1.0, np.ones(2)), r"\.name"),
        (Found("x", 1.0, np.ones(2)), Found("x", 1.0, np.array([1, 2.0])), r"\.curve"),
        (np.array([1, 2]), np.array([1, 3]), "."),
        (None, 1.0, "."),
    ],
)
def test_more_is(found, wanted, where):
    with pytest.raises((AssertionError, TypeError), match=where):
        assert_close(found, wanted)


def test_another_cpu_is_set_up_without_a_warning():
    """Each version of numpy names its features differently, and warns of one that the machine lacks."""
    code = (
        "import json\n"
        "from numpy._core._multiarray_umath import __cpu_dispatch__ as d, __cpu_features__ as f\n"
        "print(json.dumps([name for name in d if f[name]]))"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(command, env={**os.environ, **plain_cpu()}, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [] and run.stderr == ""
