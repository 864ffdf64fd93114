"""The site: Sphinx over the Markdown of docs/, the files beside README.md, and an API reference from docstrings.

`make docs` builds it. Pages are read where they lie, so that their links work on GitHub and here alike.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import reference
import truecal

project = "truecal"
author = "The truecal authors"
project_copyright = author
version = release = truecal.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx_copybutton"]  # myst_nb: and Markdown
extensions += ["navigation", "reference"]  # beside this file
root_doc = "docs/index"
include_patterns = ["docs/**", "*.md", "benchmarks/README.md", "results/*/RESULTS.md"]
exclude_patterns = ["docs/site"]
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext", ".ipynb": "myst-nb"}
nb_execution_mode = "off"  # notebooks are kept with their results, which a test runs again

myst_heading_anchors = 3  # GitHub's anchors: measures.md#the-errors
default_role = "literal"  # `names` in docstrings are code, as in Markdown
smartquotes = False  # words hold code
nitpicky = True
autodoc_typehints = "none"  # the words of a docstring say what is taken; type checkers read the types
autodoc_mock_imports = reference.missing_frameworks()
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autosummary_generate = False

highlight_options = {"python": {"stripnl": True}}  # examples end in an empty line, where doctest wants one

html_theme = "furo"
html_title = f"truecal {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["switch.js"]  # the versions that versions.py lists
html_extra_path = ["root"]  # index.html, which leads to docs/index.html, and a list of no other versions
html_copy_source = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
