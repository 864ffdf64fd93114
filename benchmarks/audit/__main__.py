"""Installs the peers, audits them and writes results/audit and PROOFS.md: python -m benchmarks.audit, or make audit.

python -m benchmarks.audit --only netcal      one library, then the page
python -m benchmarks.audit --page             the page alone, from the stored results
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

from . import page

ROOT = Path(__file__).resolve().parents[2]
PINS = {
    ".venv-audit": (
        "torch==2.13.0",
        "torchmetrics==1.9.0",
        "netcal==1.4.0",
        "scikit-learn==1.9.1",
        "relplot==1.0.3",
        "uncertainty-calibration==0.1.4",
        "probmetrics==1.3.0",
        "numba==0.68.1",  # probmetrics imports it, and names it in its part "extra" alone
        "mapie==1.6.0",
        "calibre==0.4.0",
        "probcal==0.4.0",
    ),
    ".venv-audit-torch-uncertainty": (
        "torch==2.13.0",
        "torchvision==0.28.0",
        "torchmetrics==1.9.0",
        "torch-uncertainty[cpu]==0.13.0",
    ),
}
"""The environments and what is in them beside truecal; torch-uncertainty's has torchvision, which no other needs."""


def environment_of(library: str) -> str:
    return ".venv-audit-torch-uncertainty" if library == "torch-uncertainty" else ".venv-audit"


def python_of(name: str) -> Path:
    """The interpreter of an environment, which is made if it is not there."""
    folder = ROOT / name
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        print(f"{name}: {' '.join(PINS[name])}", flush=True)
        venv.create(folder, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-e", str(ROOT), *PINS[name]], check=True)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description="Audit the calibration metrics of other libraries and our own.")
    parser.add_argument("--only", choices=page.LIBRARIES, help="one library")
    parser.add_argument("--page", action="store_true", help="write the page from the stored results, audit nothing")
    given = parser.parse_args()
    for library in () if given.page else [given.only] if given.only else page.LIBRARIES:
        python = python_of(environment_of(library))
        command = [str(python), "-W", "ignore", "-m", "benchmarks.audit.run", library, str(page.results_of(library))]
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # calls are small: more threads only wait for each other
        subprocess.run(command, cwd=ROOT, check=True, env=one_thread)
    page.write()


if __name__ == "__main__":
    main()
