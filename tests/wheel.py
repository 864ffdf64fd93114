"""The wheel as a user gets it: `python tests/wheel.py dist` installs it outside the repository and runs it there.

It prints what the wheel holds, runs `truecal demo`, and then the quick tests that need no file of the repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

EXTRAS = "cli,report,plots,recalibration"
REPOSITORY = (  # tests that read other files of the repository
    *("reproduction", "conformance"),
    *(
        "test_action.py",
        "test_benchmarks.py",
        "test_claims.py",
        "test_page_checks.py",
        "test_docs.py",
        "test_notebooks.py",
        "test_project.py",
        "test_site.py",
    ),
    "test_skill.py",
    *("test_public_table.py", "test_real_frameworks.py", "test_table.py"),
)
NEEDED = ("truecal/py.typed", "truecal/SKILL.md", "truecal/cli/letter.csv.gz", "licenses/LICENSE", "licenses/NOTICE")


def listed(wheel: Path) -> list[str]:
    """The names in a wheel, printed by folder with their sizes."""
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
    sizes: dict[str, list[int]] = {}
    for entry in entries:
        sizes.setdefault("/".join(entry.filename.split("/")[:2]), []).append(entry.file_size)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, {len(entries)} files")
    for name, found in sorted(sizes.items()):
        print(f"  {sum(found) / 1e3:8.0f} kB  {len(found):3d} {'files' if len(found) > 1 else 'file '}  {name}")
    return [entry.filename for entry in entries]


def main(dist: Path) -> None:
    """Raises where anything fails."""
    (wheel,) = dist.glob("*.whl")
    names = listed(wheel)
    missing = [name for name in NEEDED if not any(found.endswith(name) for found in names)]
    assert not missing, f"the wheel lacks {missing}"
    foreign = [name for name in names if not name.startswith("truecal")]
    assert not foreign, f"the wheel holds {foreign}"
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        venv.create(here / "venv", with_pip=True)
        scripts = here / "venv" / ("Scripts" if os.name == "nt" else "bin")
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

        def run(*command: str | Path) -> None:
            print("+", *command[:8], flush=True)
            subprocess.run([str(part) for part in command], cwd=here, env=variables, check=True)

        pip = (scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, f"truecal[{EXTRAS}] @ {wheel.resolve().as_uri()}")
        run(scripts / "truecal", "demo", "--out", "demo")
        assert (here / "demo" / "report.html").stat().st_size > 100_000
        run(*pip, "pytest>=8", "pytest-xdist>=3.6", "hypothesis>=6.100", "pandas>=2.2.2", "polars>=1.0")
        root = Path(__file__).parent.parent
        shutil.copytree(root / "tests", here / "tests", ignore=shutil.ignore_patterns("__pycache__", *REPOSITORY))
        shutil.copy(root / "pyproject.toml", here)  # its options of pytest; there is no src beside it
        options = ("-n", os.environ.get("JOBS", "2"), "--dist", "worksteal", "-o", "pythonpath=tests")
        run(scripts / "python", "-m", "pytest", *options, "-m", "not slow")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
