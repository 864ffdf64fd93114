"""The API reference: one page per package, with every public name in it, generated at each build."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.ext.autodoc.mock import mock, undecorate
from sphinx.pycode import ModuleAnalyzer

import truecal.adapters
import truecal.baselines

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PLACES = ("truecal.io", "truecal.plots", "truecal.report", "truecal.scale.cluster")
"""Modules whose names are public below `truecal`, besides the adapters."""
NAMES = (
    "truecal.analysis",
    "truecal.forecasts",
    "truecal.language",
    "truecal.losses",
    "truecal.properties",
    "truecal.results",
    "truecal.rules",
    "truecal.sql",
    "truecal.tokens",
)
"""Modules of names that are defined elsewhere."""
PROMPT = re.compile(r"^\s*(>>>|\.\.\.)")
CODE = re.compile(r"(`[^`]*`)")
SPECIAL = re.compile(r"([*|\\]|_(?=\W|$))")


@functools.cache
def rooms() -> dict[str, dict[str, list[str]]]:
    """Page -> module -> its public names, as `truecal.gap` or `truecal.io.read_labels`."""
    found: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for node in ast.parse(pkgutil.get_data("truecal", "__init__.pyi") or b"").body:
        if isinstance(node, ast.ImportFrom) and node.module:
            home = f"truecal.{node.module}"
            found[home.split(".")[1]].setdefault(home, []).extend(f"truecal.{name.name}" for name in node.names)
            importlib.import_module(home)
    for module in PLACES:
        importlib.import_module(module)
    with mock(missing_frameworks()):  # after all else, which would take an empty module for the real one
        for module in adapters():
            importlib.import_module(module)
    for module in NAMES:
        names = [name for name, value in vars(importlib.import_module(module)).items() if callable(value)]
        found[module.removeprefix("truecal.")][module] = [
            f"{module}.{name}" for name in names if name not in truecal.__all__ and not name.startswith("_")
        ]
    others = ("CalibratedClassifier", "CanonicalRecalibration", "Identity", "ScalingBinning", "Selection")
    found["recalibration"]["truecal.recalibration"] += [f"truecal.recalibration.{name}" for name in others]
    for module in (*PLACES, *adapters()):
        page = module.removeprefix("truecal.").replace(".", "-")
        found[page][module] = public(module)
    return found


def package_of(room: str) -> str:
    return f"truecal.{room.replace('-', '.')}"


def adapters() -> list[str]:
    return [f"truecal.adapters.{info.name}" for info in pkgutil.iter_modules(truecal.adapters.__path__)]


def public(module: str) -> list[str]:
    """The names that a module lists, or else the functions and classes that it defines or hands on to others."""
    names = getattr(importlib.import_module(module), "__all__", None)
    if names is not None:
        return [f"{module}.{name}" for name in names]
    source = ast.parse(Path(importlib.import_module(module).__file__ or "").read_text()).body
    defined = [node.name for node in source if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    handed_on = (alias for node in source if isinstance(node, ast.ImportFrom) for alias in node.names)
    defined += [alias.name for alias in handed_on if alias.asname == alias.name]  # import f as f
    return [f"{module}.{name}" for name in defined if not name.startswith("_")]


def missing_frameworks() -> list[str]:
    """What adapters import and this environment lacks: Sphinx puts empty modules in their place."""
    roots = set()
    for path in Path(truecal.adapters.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=names):
                    roots |= {name.name.partition(".")[0] for name in names}
                case ast.ImportFrom(module=str(module), level=0):
                    roots.add(module.partition(".")[0])
                case ast.Call(func=ast.Name(id="require"), args=[ast.Constant(value=str(module)), *_]):
                    roots.add(module.partition(".")[0])
    return sorted(root for root in roots if importlib.util.find_spec(root) is None)


def sentence(module: str) -> str:
    """What a module is for: the first paragraph of its docstring."""
    return (inspect.getdoc(importlib.import_module(module)) or "").partition("\n\n")[0]


def title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def entry(name: str) -> str:
    """The directive that documents one name."""
    module, _, attribute = name.rpartition(".")
    value = undecorate(getattr(importlib.import_module(module), attribute))  # by a framework that is not here
    if inspect.isclass(value):
        return f".. autoclass:: {name}\n   :members:\n   :inherited-members:\n\n"
    if inspect.isroutine(value):
        return f".. autofunction:: {name}\n\n"
    return f".. autodata:: {name}\n   :no-value:\n\n"


def page(room: str, modules: dict[str, list[str]]) -> str:
    package = package_of(room)
    text = title(package) + safe(sentence(package)) + "\n\n"
    for module, names in modules.items():
        if module != package:
            text += (
                title(module.rpartition(".")[2].replace("_", " ").capitalize(), "-") + safe(sentence(module)) + "\n\n"
            )
        text += "".join(entry(name) for name in names)
    return text


def overview(found: dict[str, dict[str, list[str]]]) -> str:
    """Every name with the first line of its words, and the pages."""
    text = title("API reference")
    text += "Every public name, by module. Names that are not listed may change at any time.\n\n"
    text += ".. toctree::\n   :hidden:\n\n" + "".join(f"   {room}\n" for room in ("definitions", *sorted(found))) + "\n"
    for room, modules in sorted(found.items()):
        package = package_of(room)
        text += f":doc:`{package} <{room}>`: {safe(sentence(package))}\n\n"
        text += ".. autosummary::\n   :nosignatures:\n\n"
        text += "".join(f"   ~{name}\n" for names in modules.values() for name in sorted(names)) + "\n"
    return text


def definitions() -> str:
    """The formula of every measure by name, and why it is truthful or not."""
    text = (
        title("Measures by name")
        + "n rows, k classes, bins B, prediction u or p, confidence c, z whether it is right.\n\n"
    )
    for name, measure in truecal.baselines.BASELINES.items():
        text += f"{safe(f'`{name}`, {measure.title} ({measure.property.asks})')}\n   {safe(measure.definition)}\n\n"
        text += f"   {'Truthful' if measure.truthful else 'Not shown to be truthful'}: {safe(measure.reason)}.\n\n"
    return text


def write_pages(app: Sphinx) -> None:
    folder = Path(app.srcdir, "docs", "api")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    found = rooms()
    (folder / "index.rst").write_text(overview(found))
    (folder / "definitions.rst").write_text(definitions())
    for room, modules in found.items():
        (folder / f"{room}.rst").write_text(page(room, modules))


def safe(line: str) -> str:
    """Plain words with `code` in them, so that no sign of a formula is taken for markup."""
    pieces = CODE.split(line)
    return "".join(piece if piece.startswith("`") else SPECIAL.sub(r"\\\1", piece) for piece in pieces)


def written_here(app: Sphinx, what: str, name: str, value: Any, skip: bool, options: object) -> bool:
    """Leave out what a class has from other libraries."""
    module = getattr(getattr(value, "fget", value), "__module__", None)
    return skip or not str(module).startswith("truecal")


def attribute_words(name: str) -> list[str]:
    """The words under the definition of an attribute that is public under another name."""
    attribute = name.rpartition(".")[2]
    package = next(module for modules in rooms().values() for module, names in modules.items() if name in names)
    for module in sorted(sys.modules):  # the package, or the module in it that defines the name
        if f"{module}.".startswith(f"{package}."):
            found = ModuleAnalyzer.for_module(module).find_attr_docs()
            if ("", attribute) in found:
                return found["", attribute]
    return []


def sections(lines: list[str]) -> list[str]:
    """The sections of parameters and of what is returned as fields, which Sphinx lays out; the rest as it is."""
    text, _, examples = "\n".join(lines).partition("\nExamples\n--------\n")
    text, _, returned = text.partition("\nReturns\n-------\n")
    text, _, parameters = text.partition("\nParameters\n----------\n")
    fields = [
        f":param {name}: {' '.join(words.split())}"
        for name, words in re.findall(r"^(\w+)\n((?:    .*\n?)+)", parameters, re.M)
    ]
    fields += [f":returns: {' '.join(returned.split())}"] if returned else []
    return [*text.split("\n"), "", *fields, "", *examples.split("\n")]


def plain_words(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain words, lists and examples; a dictionary's are those under its definition."""
    if isinstance(value, dict):
        lines[:] = attribute_words(name)
    text: list[str] = []
    example = False
    for line in sections(lines):
        example = bool(PROMPT.match(line)) or (example and bool(line.strip()))
        if line.lstrip().startswith("- ") and text and text[-1].strip() and not text[-1].lstrip().startswith("- "):
            text.append("")
        text.append(line if example else safe(line))
    lines[:] = text


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-skip-member", written_here)
    app.connect("autodoc-process-docstring", plain_words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
