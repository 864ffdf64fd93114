"""The pictures of README and docs: `make pictures` makes them all, `python docs/site/pictures.py gallery` some."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def report(picture: Path) -> None:
    """The first screen of the demo's report, with the diagrams of its best models."""
    import chromium

    with tempfile.TemporaryDirectory() as folder, chromium.launch() as browser:
        subprocess.run([Path(sys.executable).with_name("truecal"), "demo", "--out", folder], check=True)
        browser.open(Path(folder, "report.html"), width=1280, height=1150)
        browser.screenshot(picture, whole=False)


def gallery(folder: Path) -> None:
    """What the examples of docs/gallery.md draw, with a palette, which keeps the page light."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        page, flags = str(DOCS / "gallery.md"), doctest.NORMALIZE_WHITESPACE
        doctest.testfile(page, module_relative=False, optionflags=flags, encoding="utf-8", raise_on_error=True)
        os.chdir(ROOT)
        folder.mkdir(exist_ok=True)
        for drawn in sorted(Path(work, "gallery").glob("*.png")):
            Image.open(drawn).convert("RGB").quantize(64).save(folder / drawn.name, optimize=True)


def growth(picture: Path) -> None:
    """Nanoseconds per prediction as sizes grow: measured, so it is another picture on another machine."""
    from benchmarks.core import growth as draw

    draw(picture)


def peers(picture: Path) -> None:
    """Time and memory beside other libraries, of the run that benchmarks/peers/results.json holds."""
    from benchmarks.peers import page, running
    from benchmarks.peers.picture import draw

    draw(page.stored(), running.FULL, picture)


def noise(picture: Path) -> None:
    """One sample as the reliability diagrams of who knows and who does not."""
    from why_truthful import draw_noise

    draw_noise(picture)


def pair(picture: Path) -> None:
    """The same two in many samples, under ECE and under the score."""
    from why_truthful import draw_pair

    draw_pair(picture)


def language_model(picture: Path) -> None:
    """Next characters before and after a temperature, from the logs in docs/logs."""
    import matplotlib.pyplot as plt

    import truecal as tc

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained")
    for ax, (file, name) in zip(axes, (("tokens", "as trained"), ("tokens-scaled", "with a temperature")), strict=True):
        log = tc.tokens.read(DOCS / "logs" / f"{file}.jsonl.gz")
        top = tc.TopPredictions(log.correct, log.confidence)
        tc.plots.reliability(tc.evaluate(None, top, groups=log.document, name=name), ax=ax)
        ax.set(xlabel="probability of the most likely next character", ylabel="observed frequency")
    figure.savefig(picture, dpi=110, bbox_inches="tight")
    plt.close(figure)


def sampled(picture: Path) -> None:
    """Majority share and split share of sampled answers."""
    from sampled_answers import draw_naive_and_split

    draw_naive_and_split(picture)


def before_and_after(picture: Path) -> None:
    """A classifier before and after recalibration, with the sentence that a person would say."""
    import matplotlib.pyplot as plt
    from sklearn.datasets import make_classification
    from sklearn.naive_bayes import GaussianNB

    import truecal as tc

    X, y = make_classification(12_000, n_informative=8, n_classes=3, random_state=0)
    train, fit, test = slice(0, 2000), slice(2000, 5000), slice(5000, None)
    before = GaussianNB().fit(X[train], y[train])
    after = tc.calibrate(before, X[fit], y[fit])
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 4.3), layout="constrained", sharey=True)
    for ax, (name, model) in zip(axes, (("Before", before), ("After", after)), strict=True):
        found = tc.evaluate(y[test], model.predict_proba(X[test]), n_resamples=199)
        tc.plots.reliability(found, ax=ax)
        ax.set_title(f"{name}: {found.says.split(':')[0]}", fontsize="large")
    figure.savefig(picture, dpi=110, bbox_inches="tight")
    plt.close(figure)


SHEET = """<!doctype html><meta charset="utf-8"><title>truecal: cheat sheet</title><style>
@page {{ size: A4; margin: 11mm }} body {{ font: 8.6pt/1.3 sans-serif; margin: 0 }}
h1 {{ font-size: 14pt; margin: 0 0 2mm }}
table {{ border-collapse: collapse; width: 100%; margin: 0 0 3mm }} th {{ text-align: left; border-bottom: 1pt solid }}
td, th {{ padding: .8mm 1.5mm }}
td {{ border-bottom: .3pt solid #999 }} code {{ font-size: 7.8pt }}
</style>{}"""


def cheat_sheet(sheet: Path) -> None:
    """docs/cheat-sheet.md on one printed page."""
    from markdown_it import MarkdownIt

    import chromium

    text = (DOCS / "cheat-sheet.md").read_text("utf-8").partition("\n[The same as PDF]")[0]
    with tempfile.TemporaryDirectory() as folder, chromium.launch() as browser:
        page = Path(folder, "sheet.html")
        page.write_text(SHEET.format(MarkdownIt("commonmark").enable("table").render(text)), "utf-8")
        browser.open(page, ready=chromium.LOADED)
        sheet.write_bytes(browser.pdf())


PICTURES: dict[str, Callable[[Path], None]] = {
    "before-and-after": before_and_after,
    "report": report,
    "growth": growth,
    "peers": peers,
    "why-truthful-noise": noise,
    "why-truthful-pair": pair,
    "next-tokens": language_model,
    "language-models": sampled,
}


def main(names: list[str]) -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    others = {"gallery": (gallery, "gallery"), "cheat-sheet": (cheat_sheet, "cheat-sheet.pdf")}
    for name in names or (*PICTURES, *others):
        draw, file = others.get(name) or (PICTURES[name], f"{name}.png")
        path = DOCS / file
        draw(path)
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
