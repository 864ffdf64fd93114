"""The project's outside: what an import loads, the rooms and their map, one version, and files that must agree."""

from __future__ import annotations

import ast
import inspect
import json
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import truecal as tc

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "truecal"
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = {"scikit-learn": "sklearn", "vl-convert-python": "vl_convert"}
"""Libraries whose module has another name."""


def modules_of_extras() -> set[str]:
    """The modules of every library that some extra brings."""
    lines = (line for lines in PROJECT["optional-dependencies"].values() for line in lines)
    core = {re.split(r"[^\w-]", line)[0] for line in PROJECT["dependencies"]}
    libraries = {re.split(r"[^\w-]", line)[0] for line in lines} - {"truecal"} - core
    return {NAMES.get(library, library.replace("-", "_")) for library in libraries}


EXTRAS = modules_of_extras()


def first_sentence(room: Path) -> str:
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
    return text.split("\n")[0]


# -- importing ---------------------------------------------------------------------------------------------------------


def imported(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after the statement."""
    code = f"{statement}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_extras_are_known_by_their_modules():
    assert {"sklearn", "torch", "torchmetrics", "dask", "mlflow", "pandas", "polars", "vl_convert"} <= EXTRAS


def test_import_loads_neither_an_extra_nor_scipy():
    assert not imported("import truecal; truecal.ERRORS") & {"scipy", *EXTRAS}


@pytest.mark.slow
def test_rooms_of_the_core_and_pictures_load_no_extra_before_it_is_used():
    rooms = (
        "sums.errors",
        "baselines",
        "results.comparison",
        "inference",
        "io",
        "plots",
        "report",
        "adapters.sklearn",
    )
    assert not imported("import " + ", ".join(f"truecal.{room}" for room in rooms)) & EXTRAS


# -- names -------------------------------------------------------------------------------------------------------------


def test_every_public_name_is_there_and_explains_itself():
    for name in tc.__all__:
        assert getattr(getattr(tc, name), "__doc__", None), name
    assert set(tc.__all__) <= set(dir(tc))
    with pytest.raises(AttributeError, match="module 'truecal' has no attribute 'no_such_name'"):
        tc.no_such_name  # type: ignore[attr-defined]  # noqa: B018  # the access is the test


def test_no_room_hides_a_public_name():
    """Importing `truecal.audit`, were there such a module, would put it in the place of the function."""
    assert not {room.name for room in ROOMS} & set(tc.__all__)


def test_nothing_lies_loose_at_the_top():
    loose = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    public = {
        *(
            "analysis.py",
            "forecasts.py",
            "language.py",
            "losses.py",
            "plots.py",
            "properties.py",
            "report.py",
            "rules.py",
            "sql.py",
            "tokens.py",
        )
    }  # names, without code
    assert loose == {"__init__.py", "__init__.pyi", "__main__.py", "py.typed"} | public
    folders = {path for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(ROOMS)


def test_a_name_of_a_module_exists_once():
    """But for the public modules at the top, which are named as what they show."""
    inner = [path.name for path in PACKAGE.glob("*/**/*.py") if not path.name.startswith("__")]
    assert sorted(set(inner)) == sorted(inner)


def test_the_top_level_is_small_and_shows_public_names_only():
    assert len(tc.__all__) <= 60
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text()).body
    imports = [node for node in stub if isinstance(node, ast.ImportFrom)]
    told = {(node.module, name.name) for node in imports if node.module for name in node.names}
    assert told == {(module, name) for module, names in vars(tc)["_NAMES"].items() for name in names.split()}
    modules = {name.name for node in imports if not node.module for name in node.names}
    assert set(dir(tc)) == {*tc.__all__, *modules, "__version__"} and modules == set(vars(tc)["_MODULES"])


def test_every_public_parameter_is_described():
    results = {"BinTable", "Comparison", "Evaluation", "Monitor", "Stream"}  # made by functions, fields described
    for name in set(tc.__all__) - results:
        value = getattr(tc, name)
        if callable(value):
            text = inspect.cleandoc(value.__doc__ or "")
            section = text.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
            told = set(re.findall(r"^(\w+)$", section, flags=re.MULTILINE))
            assert set(inspect.signature(value).parameters) - {"self"} == told, name


def test_every_module_says_in_one_sentence_what_it_is_for():
    for path in PACKAGE.rglob("*.py"):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        assert re.match(r"\S.*[.:]$", text.split("\n")[0]), path


# -- the map and the tests ---------------------------------------------------------------------------------------------


def test_the_map_of_contributing_is_the_tree():
    rows = re.findall(r"^\| `(\w+)/` \| (.+) \|$", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)
    assert len(dict(rows)) == len(rows)
    assert dict(rows) == {room.name: first_sentence(room) for room in ROOMS}


def test_contributing_is_short():
    assert len((ROOT / "CONTRIBUTING.md").read_text().split()) < 700


def test_folders_of_tests_are_rooms_and_files_are_short():
    folders = {path for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {path.name for path in folders} <= {room.name for room in ROOMS} | {"reproduction", "conformance", "goldens"}
    for path in (ROOT / "tests").rglob("test_*.py"):
        assert len(path.read_text().splitlines()) <= 600, path


LOADED_LATER = {
    ("core/arrays.py", "truecal.core.row_kernels"),
    ("core/arrays.py", "truecal.sums.torch"),
    ("cli/warehouse.py", "truecal.sql"),
    ("core/result.py", "truecal.plots"),
    ("inference/null.py", "truecal.inference.device_draws"),
    ("recalibration/base.py", "truecal.recalibration.device_logits"),
    ("render/report/__init__.py", "truecal.render.report.build_page"),
    ("results/crossfit.py", "truecal.recalibration"),
    ("results/measurement.py", "truecal.adapters.tracking"),
    ("sums/torch/batches.py", "truecal.sums.torch.fused_batches"),
    ("sums/torch/kernels.py", "truecal.sums.torch.fused"),
    ("sums/torch/quick.py", "truecal.sums.torch.fused_quantiles"),
}
"""Which file loads which module by its name, when it is first needed: the layers do not see that."""


def test_no_other_module_is_loaded_by_its_name():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in (
                "import_module",
                "require",
            ):
                named = node.args[0]
                if isinstance(named, ast.Constant) and str(named.value).startswith("truecal"):
                    found.add((str(path.relative_to(PACKAGE)), named.value))
    assert found == LOADED_LATER


# -- one version, one set of bounds ------------------------------------------------------------------------------------


def test_the_version_has_one_source():
    assert PROJECT["dynamic"] == ["version"] and "version" not in PROJECT
    assert f"\nversion: {tc.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f'set version = "{tc.__version__}"' in (ROOT / "conda" / "meta.yaml").read_text()


def test_the_changelog_has_a_place_for_what_comes_and_a_date_for_what_came():
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", heading) for heading in headings[1:])
    assert headings[1].startswith(f"[{tc.__version__}]")
    date = headings[1].partition(" - ")[2]
    assert f"\ndate-released: {date}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_workflow_runs_every_python_that_is_promised():
    promised = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert f"python: {json.dumps(promised)}" in workflow


def test_extras_named_in_messages_exist():
    said = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        said |= {name for names in re.findall(r"truecal\[([\w,-]+)\]", text) for name in names.split(",")}
        said |= set(re.findall(r'require\("[\w.]+", "([\w-]+)"\)', text))
    assert said and said <= set(PROJECT["optional-dependencies"])


def test_public_functions_have_types():
    for name in tc.__all__:
        thing = getattr(tc, name)
        if inspect.isfunction(thing):
            assert "return" in thing.__annotations__, name


def test_an_older_python_is_refused_before_pip_searches(monkeypatch):
    """pip asks the build for metadata first, with the Python it installs for."""
    interface = SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))["PythonIsNewEnough"]()
    hook.update({})
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(SystemExit, match=r"truecal needs Python 3\.11 or newer"):
        hook.update({})
    assert PROJECT["requires-python"] == ">=3.11"


def test_torch_comes_only_where_it_is_asked_for():
    """It brings gigabytes: no other extra of users may bring it, by way of another either."""
    extras = PROJECT["optional-dependencies"]

    def brought(extra: str) -> set[str]:
        found = set()
        for line in extras[extra]:
            name, _, inner = line.partition("[")
            found |= {re.split(r"[^\w-]", line)[0]} - {"truecal"}
            if name == "truecal":
                found |= {library for part in inner.partition("]")[0].split(",") for library in brought(part)}
        return found

    assert {"typer", "altair", "dask", "numba", "scikit-learn"} <= brought("all")
    with_torch = {extra for extra in extras if "torch" in brought(extra)}
    assert with_torch == {"torch", "torchmetrics", "reproduction-gpu", "dev", "kernels"}
