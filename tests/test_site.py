"""The site: every page is in its sidebar, every link leads somewhere, every public name is explained, on every screen.

Links are checked in the Markdown itself. What only a built site can show is checked where the variable SITE says where
it lies: `make docs` builds it and runs this file.
"""

from __future__ import annotations

import ast
import html.parser
import importlib
import os
import re
import runpy
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import chromium
import truecal as tc

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NAVIGATION = runpy.run_path(str(DOCS / "site" / "navigation.py"))
PAGES = [
    *sorted(DOCS.glob("*.md")),
    *sorted(ROOT.glob("*.md")),
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "results").glob("*/RESULTS.md")),
]
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


# -- the Markdown ------------------------------------------------------------------------------------------------------


def prose(text: str) -> str:
    """A page without its code."""
    return CODE.sub("", FENCE.sub("", text))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def broken(page: Path, text: str) -> list[str]:
    """The relative links of a page, given its text, that lead to no file or to no heading."""
    found = []
    for link in LINK.findall(prose(text)):
        parts = urlsplit(link)
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        known = target.exists() and (not parts.fragment or parts.fragment in anchors(target))
        if not parts.scheme and not known:
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_anchors_of_a_page_exist(page):
    assert broken(page, page.read_text()) == []


def test_a_link_to_nothing_is_seen():
    text = (
        "[a](nowhere.md) [b](faq.md#no-heading) [c](faq.md#why-not-just-brier) `[d](code.md)` [e](#why-not-just-brier)"
    )
    assert broken(DOCS / "faq.md", text) == ["nowhere.md", "faq.md#no-heading"]


@pytest.mark.parametrize("page", [*DOCS.glob("*.md"), ROOT / "README.md"], ids=lambda page: page.name)
def test_pictures_are_told_in_words(page):
    """The alternative text has the finding, for who cannot see the picture."""
    told = re.findall(r"!\[([^\]]*)\]\(", prose(page.read_text()))
    assert [text for text in told if len(text.split()) < 6] == []


def test_addresses_of_other_sites_are_whole_and_safe():
    """They are listed here rather than fetched: other people's sites are no test of ours."""
    addresses = {link for page in PAGES for link in LINK.findall(prose(page.read_text())) if urlsplit(link).scheme}
    assert addresses
    for address in addresses:
        assert urlsplit(address).scheme == "https", address
        assert "." in urlsplit(address).netloc, address


def sidebar(text: str) -> list[str]:
    return [page for pages in NAVIGATION["groups"](text).values() for _, page in pages]


def test_every_page_has_its_line_in_the_index():
    """The list of docs/index.md is the sidebar: add a line `- [Title](page.md): what it says.` under a heading."""
    listed = sidebar((DOCS / "index.md").read_text())
    assert len(listed) == len(set(listed))
    pages = {f"docs/{page.stem}" for page in DOCS.glob("*.md")} - {"docs/index"}
    assert pages - set(listed) == set()


# -- the built site ----------------------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """The anchors of a page, where its links lead, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids.add(values.get("id") or "")
        self.links.add((values.get("href") if tag == "a" else values.get("src")) or "")
        if tag in ("img", "script") or values.get("rel") == "stylesheet":
            self.loaded.add(values.get("src") or values.get("href") or "")


@pytest.fixture(scope="module")
def site():
    if "SITE" not in os.environ:
        pytest.skip("no built site: make docs builds it and looks at it")
    return Path(os.environ["SITE"]).resolve()


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in site.rglob("*.html")}


def test_built_links_lead_to_pages_and_anchors(pages, site):
    lost = []
    for path, page in pages.items():
        for link in page.links - {"", "#"}:
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if parts.scheme or parts.netloc:
                continue
            known = target.exists() and (not parts.fragment or unquote(parts.fragment) in pages[target].ids)
            if not known:
                lost.append(f"{path.relative_to(site)}: {link}")
    assert lost == []


def test_pages_are_light(pages, site):
    """What a page loads itself: text, styles, scripts and pictures. The embedded report is loaded when it is seen."""
    heavy = {}
    for path, page in pages.items():
        files = {(path.parent / unquote(urlsplit(link).path)).resolve() for link in page.loaded}
        weight = path.stat().st_size + sum(file.stat().st_size for file in files if file.is_file())
        if weight > 500_000 and path != site / "docs" / "demo.html":
            heavy[path.name] = weight
    assert heavy == {}


def test_every_public_name_has_its_entry(pages):
    names = {f"truecal.{name}" for name in tc.__all__}
    for module in ("truecal.io", "truecal.plots", "truecal.report", "truecal.scale.cluster"):
        found = importlib.import_module(module)
        offered = getattr(found, "__all__", None) or [name for name in vars(found) if not name.startswith("_")]
        names |= {f"{module}.{name}" for name in offered}
    entries = set().union(*(page.ids for path, page in pages.items() if path.parent.name == "api"))
    assert names - entries == set()


def listed(module: Path) -> list[str]:
    """The names that a module offers, without importing it: those of its __all__, or what it defines."""
    body = ast.parse(module.read_text()).body
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    defined = [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return [name for name in defined if not name.startswith("_")]


def test_every_name_of_an_adapter_has_its_entry(pages):
    """Frameworks are not installed where the site is built, so the adapters are read."""
    adapters = ROOT / "src" / "truecal" / "adapters"
    modules = {path.stem: path for path in adapters.glob("[!_]*.py")}
    modules |= {path.parent.name: path for path in adapters.glob("*/__init__.py")}
    names = {f"truecal.adapters.{module}.{name}" for module, path in modules.items() for name in listed(path)}
    assert {f"truecal.adapters.{name}" for name in ("sklearn.Scorer", "torchmetrics.CalibrationMetric")} <= names
    entries = set().union(*(page.ids for path, page in pages.items() if path.parent.name == "api"))
    assert names - entries == set()


OUTSIDE = """
[...document.body.querySelectorAll("article *, .wide")].filter(element => {
  if (element.getBoundingClientRect().right <= 391) return false;
  for (let box = element; box; box = box.parentElement)
    if (["auto", "scroll", "hidden"].includes(getComputedStyle(box).overflowX)) return false;
  return true;
}).map(element => element.outerHTML.slice(0, 80))
"""
"""What sticks out of the screen and is in nothing that scrolls by itself."""
CLIPPED = """
[...document.querySelectorAll("article pre")].filter(block => block.scrollWidth > block.clientWidth + 1
  && (innerWidth >= 1280 || !["auto", "scroll"].includes(getComputedStyle(block).overflowX))
).map(block => block.innerText.slice(0, 80))
"""
"""Code that is cut off: on a desk what is wider than its box, on a phone what does not scroll either."""
WIDE_PAGE = "<!doctype html><meta name=viewport content='width=device-width'><p class=wide style='width: 600px'>wide"


@pytest.mark.skipif(chromium.browser_path() is None, reason="no Chromium on this machine")
def test_no_page_is_wider_than_a_phone(pages, site, tmp_path):
    """Wide tables and code scroll within themselves."""
    wide = tmp_path / "wide.html"
    wide.write_text(WIDE_PAGE)
    found = {}
    with chromium.launch() as browser:
        for path in [wide, *sorted(pages)]:
            if path != site / "index.html":  # leads on
                browser.open(path, width=390, height=844, ready=chromium.LOADED)
                found[path] = browser.run("document.documentElement.scrollWidth"), browser.run(OUTSIDE)
    width, outside = found.pop(wide)
    assert width > 390
    assert len(outside) == 1
    assert {path.name: what for path, what in found.items() if what != (390, [])} == {}


@pytest.mark.skipif(chromium.browser_path() is None, reason="no Chromium on this machine")
def test_versions_are_offered(tmp_path):
    """From a page of an older version to the first page of the newest, by the lists that versions.py writes."""
    runpy.run_path(str(DOCS / "site" / "versions.py"))["write_lists"](folder(tmp_path), "0.3.0", ["0.2.0", "0.1.0"])
    with chromium.launch() as browser:
        browser.open(tmp_path / "0.1.0" / "docs" / "faq.html", ready="document.querySelector('select') !== null")
        offered = "[...document.querySelector('select')].map(option => [option.text, option.selected])"
        assert browser.run(offered) == [["version 0.3.0", False], ["version 0.2.0", False], ["version 0.1.0", True]]
        choose = "document.querySelector('select')"
        browser.run(f"setTimeout(() => {{ {choose}.value = '../'; {choose}.dispatchEvent(new Event('change')) }}, 50)")
        assert title_comes(browser, "newest index")
    (tmp_path / "versions.js").write_text("window.VERSIONS = [];")
    with chromium.launch() as browser:
        browser.open(tmp_path / "docs" / "index.html", ready="window.VERSIONS !== undefined")
        assert browser.run("document.querySelector('select') === null")


def folder(site: Path) -> Path:
    """Sites of three versions, of one page each."""
    script = (DOCS / "site" / "static" / "switch.js").read_text()
    for name, page in (("", "index"), ("0.2.0", "index"), ("0.1.0", "faq")):
        (site / name / "docs").mkdir(parents=True)
        text = f"<html data-content_root='../'><title>{name or 'newest'} {page}</title><script>{script}</script>"
        (site / name / "docs" / f"{page}.html").write_text(f"<!doctype html>{text}<a class=sidebar-brand>t</a>")
    return site


def title_comes(browser: chromium.Browser, title: str) -> bool:
    """Whether a page of this title is opened; a question asked between two pages has no answer."""
    for _ in range(200):
        time.sleep(0.05)
        with suppress(RuntimeError):
            if browser.run("document.title") == title:
                return True
    return False


@pytest.mark.skipif(chromium.browser_path() is None, reason="no Chromium on this machine")
def test_no_code_is_clipped(pages, site):
    found = {}
    with chromium.launch() as browser:
        for path in sorted(pages):
            for width in (1280, 390) if path != site / "index.html" else ():  # which leads on
                browser.open(path, width=width, ready=chromium.LOADED)
                found[path.name, width] = browser.run(CLIPPED)
    assert found and {place: blocks for place, blocks in found.items() if blocks} == {}
