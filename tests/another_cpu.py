"""Run pytest as on another, older CPU: `python tests/another_cpu.py [arguments of pytest]`.

The libraries choose their instructions by the CPU, and each way rounds differently in the last bit. This run takes the
plainest way of each, with one thread per process, and in a shuffled order of tests. What fails only here compares
floats bit for bit (`closeness.py` has the remedy) or depends on another test.
"""

from __future__ import annotations

import os
import platform
import random
import subprocess
import sys


def plain_cpu() -> dict[str, str]:
    """The environment in which numpy, BLAS, numba, torch, arrow and the C library use no newer instructions."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__  # type: ignore[import-not-found]

    # A feature that the machine lacks would warn, and each version of numpy has its own names.
    already = os.environ.get("NPY_DISABLE_CPU_FEATURES", "").split()  # inside such a run they are off
    chosen = already + [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(chosen),
        "OPENBLAS_CORETYPE": "Nehalem" if x86 else "ARMV8",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ATEN_CPU_CAPABILITY": "default",
        "ARROW_USER_SIMD_LEVEL": "NONE",
        "NUMBA_CPU_NAME": "generic",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-AVX512F",
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    }


if __name__ == "__main__":
    variables = plain_cpu()
    seed = random.SystemRandom().randrange(10**6)
    command = [sys.executable, "-m", "pytest", f"--shuffle={seed}", *sys.argv[1:]]  # a later --shuffle wins
    print(*(f"{name}={value!r}" for name, value in variables.items()), *command, flush=True)
    raise SystemExit(subprocess.run(command, env={**os.environ, **variables}).returncode)
