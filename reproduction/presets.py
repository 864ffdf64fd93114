"""The experiments on offer: a preset is data plus a trainer, and the traces to train with it."""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.datasets import Split
from reproduction.datasets import cifar100 as read_cifar100
from reproduction.folder import read_json
from reproduction.letter_trainer import MLPTrainer
from reproduction.traces import CROSS, KINDS, WITHIN, Checkpoint, Trace, Trainer, kind
from truecal.cli.letter import letter as read_letter
from truecal.io.failures import failure, parsing

FORTIETHS = tuple(i / 40 for i in range(1, 41))
TWELFTHS = tuple(i / 12 for i in range(1, 13))
FIFTHS = (0.2, 0.4, 0.6, 0.8, 1.0)
# Warm-up ends where a checkpoint gets at least half of the validation set right: fixed for every preset, unseen.
WARM_UP = 0.5
TINY_HELD_OUT = 2500  # rows of validation and of test that a toy run measures on: more than the most bins

LETTER_MODELS = (
    *("mlp-16", "mlp-32", "mlp-64", "mlp-128", "mlp-256"),
    *("mlp-32-32", "mlp-64-64", "mlp-128-128", "mlp-64-64-64"),
)
PAPERS, SMALLER = "The paper's experiment", "The paper's experiment, smaller"
PAPER_MODEL = "mobilenetv3_small_100"
PAPER_MODELS = (
    *("mobilenetv3_small_050", "mobilenetv3_small_075", PAPER_MODEL),
    *("resnet10t", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
)
LITE0 = "tf_efficientnet_lite0"
LITE0_VARIANTS = tuple(f"{LITE0}@{size}{frozen}" for size in (64, 96, 128) for frozen in ("", "+freeze4", "+freeze6"))
LONG_RATES = (0.001, 0.02)
# The order of work where time is short: every second fraction of both arms, then these pairs one after the other.
LONG_PIECES = ((1, 3, 5, 7, 9, 11), (12,), (6,), (2,), (4,), (8,), (10,))
# The same for images of the paper's size: piece i is these twelfths' i-th.
FULL_SIZE_PIECES = tuple((twelfth,) for twelfth in (1, 2, 3, 4, 6, 8, 10, 12, 5, 7, 9, 11))
# Across models: twelfths, and networks of which the first is the within-model one, whose traces are not trained twice.
FULL_SIZE_CROSS = (1, 3, 6, 12)
FULL_SIZE_MODELS = ("mobilenetv2_100", LITE0, "tf_efficientnet_lite1", "tf_efficientnet_lite2")
LONG_RECALIBRATIONS = ("none", "vector", "isotonic", "top")
LONG_MODELS = tuple(
    f"{name}@{size}"
    for name in (LITE0, "tf_efficientnet_lite1", "tf_efficientnet_lite2", "mobilenetv2_100")
    for size in (64, 96)
)


@dataclass(frozen=True)
class Preset:
    """Everything a run needs; ``open`` is called once in each worker process."""

    name: str
    title: str
    experiments: Mapping[str, tuple[Trace, ...]]
    open: Callable[[], Trainer]
    settings: Mapping[str, Any]  # what the numbers depend on: recorded with the results, and no other run resumes them
    notes: tuple[str, ...] = ()  # what a reader must know about this run, for RESULTS.md
    warm_up: float = WARM_UP
    recalibrations: tuple[str, ...] = ()  # measured beside temperature scaling, each in columns of its own
    processes: int = 1
    beside_paper: bool = False


@dataclass(frozen=True)
class CifarSettings:
    """How to train on CIFAR-100; the defaults are the paper's protocol."""

    image_size: int = 224
    learning_rate: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 5e-4
    batch_size: int = 256
    precision: str = "bf16"
    pretrained: bool = True
    weights: str | Path | None = None
    device: str = "cuda"
    cuda_graphs: bool = False
    compile: bool = False
    channels_last: bool = True
    seed: int = 42

    def __post_init__(self) -> None:
        if self.precision not in {"bf16", "fp32"}:
            raise ValueError(f"precision is 'bf16' or 'fp32', got {self.precision!r}")

    def recorded(self) -> dict[str, Any]:
        """What the numbers depend on; the rest is the machine's."""
        machine = {"weights", "device", "cuda_graphs", "compile", "channels_last"}
        return {key: value for key, value in asdict(self).items() if key not in machine}


@dataclass(frozen=True)
class Variant:
    """A model's name in full: ``name[@size][+freezeN]``: input size in pixels, and the stem and N stages kept fixed.

    >>> Variant.parse("tf_efficientnet_lite0@96+freeze4", 224)
    Variant(name='tf_efficientnet_lite0', image_size=96, frozen=4)
    """

    name: str
    image_size: int
    frozen: int | None = None

    @classmethod
    def parse(cls, text: str, image_size: int) -> Variant:
        match = re.fullmatch(r"([A-Za-z0-9_.]+)(?:@(\d+))?(?:\+freeze(\d+))?", text)
        if match is None:
            raise ValueError(f"expected a model as name[@size][+freezeN], got {text!r}")
        name, size, frozen = match.groups()
        return cls(name, int(size or image_size), None if frozen is None else int(frozen))

    def cost(self, fraction: float) -> float:
        """Relative work of an epoch: training on a fraction of the images, a forward pass over the held-out ones."""
        backward = 1.0 if self.frozen is None else 0.6
        return (self.image_size / 224) ** 2 * (fraction * backward + 0.07)


def letter(
    *,
    seed: int = 42,
    quick: bool = False,
    epochs: int | None = None,
    fractions: Sequence[float] | None = None,
    models: Sequence[str] = LETTER_MODELS,
    within_model: str = "mlp-64",
    cross_fractions: Sequence[float] | None = None,
) -> Preset:
    """Letter Recognition with scikit-learn's perceptrons: the bundled default, minutes on two cores."""
    epochs = epochs or (8 if quick else 25)
    fractions = fractions or (FORTIETHS[4::5] if quick else FORTIETHS)
    cross_fractions = cross_fractions or ((0.2, 1.0) if quick else FIFTHS)
    models = models[1::2] if quick and models == LETTER_MODELS else models

    planned = {WITHIN: ([within_model], fractions), CROSS: (models, cross_fractions)}
    return Preset(
        "letter",
        "The paper's experiment on other data: Letter Recognition, scikit-learn perceptrons",
        _traces(planned, epochs, lambda model, fraction: 0.5 + fraction),
        partial(_open_letter, seed),
        {"seed": seed, "epochs": epochs},
        notes=_notes("letter"),
        processes=min(2, os.cpu_count() or 1),
    )


def tiny(*, seed: int = 42, quick: bool = False) -> Preset:
    """The whole pipeline in seconds: a few short traces of small perceptrons, for trying things out."""
    models: Any = {"models": ("mlp-8", "mlp-32"), "within_model": "mlp-16"}
    small = letter(seed=seed, epochs=3, fractions=(0.1, 0.4, 1.0), cross_fractions=(0.2, 1.0), **models)
    settings, opened = {**small.settings, "held_out": TINY_HELD_OUT}, partial(_open_letter, seed, TINY_HELD_OUT)
    small = replace(small, name="tiny", title="Toy run on Letter Recognition", settings=settings, open=opened)
    return replace(small, notes=_notes("tiny"), warm_up=0.9, processes=1)


def cifar100(
    *,
    data: str | Path,
    quick: bool = False,
    within_model: str = PAPER_MODEL,
    models: Sequence[str] = PAPER_MODELS,
    fractions: Sequence[float] | None = None,
    cross_fractions: Sequence[float] | None = None,
    epochs: int | None = None,
    **options: Any,
) -> Preset:
    """CIFAR-100 with timm's networks on a GPU: by default the paper's protocol in full; options: `CifarSettings`."""
    settings = CifarSettings(**options)
    epochs = epochs or (2 if quick else 100)
    fractions = fractions or ((0.1, 0.5, 1.0) if quick else FORTIETHS)
    cross_fractions = cross_fractions or ((1.0,) if quick else FIFTHS)

    def cost(model: str, fraction: float) -> float:
        return Variant.parse(model, settings.image_size).cost(fraction)

    planned = {WITHIN: ([within_model], fractions), CROSS: (models, cross_fractions)}
    recorded = {**settings.recorded(), "epochs": epochs}
    paper = {**CifarSettings(seed=settings.seed).recorded(), "epochs": 100, "within-model network": PAPER_MODEL}
    unlike = [
        f"{key.replace('_', ' ')} {value} (paper: {paper[key]})"
        for key, value in {"within-model network": within_model, **recorded}.items()
        if value != paper[key]
    ]
    return Preset(
        "cifar100",
        f"{SMALLER if unlike else PAPERS}: CIFAR-100, {within_model} within, {len(models)} models across",
        _traces(planned, epochs, cost),
        partial(_open_cifar, data, settings),
        recorded,
        notes=(f"The paper's protocol, except for: {', '.join(unlike)}.",) if unlike else (),
        processes=5 if settings.device.startswith("cuda") else 1,
        beside_paper=True,
    )


def cifar100_long(*, quick: bool = False, epochs: int | None = None, **options: Any) -> Preset:
    """CIFAR-100, one small network trained for long at a low and at a high learning rate, and four networks across.

    Asks where the sign flip of the usual confidence errors comes from: the high rate overfits, the low one does not.
    """
    base = cifar100(
        within_model=f"{LITE0}@64",
        models=LONG_MODELS,
        fractions=(1 / 12, 1.0) if quick else TWELFTHS,
        image_size=64,
        epochs=epochs,
        quick=quick,
        **options,
    )
    within = _in_pieces(base.experiments[WITHIN], LONG_PIECES)
    arms = {f"{WITHIN}-lr{rate:g}": rate for rate in LONG_RATES}
    experiments = {arm: tuple(replace(trace, learning_rate=rate) for trace in within) for arm, rate in arms.items()}
    experiments[CROSS] = tuple(
        replace(trace, learning_rate=0.01, epochs=min(trace.epochs, 10), piece=len(LONG_PIECES))
        for trace in base.experiments[CROSS]
    )
    return replace(
        base,
        name="cifar100-long",
        title=f"{SMALLER}: CIFAR-100, {LITE0} at two learning rates, {len(LONG_MODELS)} models across",
        experiments=experiments,
        settings={**base.settings, "learning_rate": {**arms, CROSS: 0.01}},
        notes=base.notes + _notes("cifar100-long"),
        warm_up=0.7,
        recalibrations=LONG_RECALIBRATIONS,
    )


def cifar100_224(*, quick: bool = False, epochs: int | None = None, **options: Any) -> Preset:
    """CIFAR-100 in the paper's setting: its size of images, rate, epochs and protocol; fractions are twelfths.

    The network within one model is mobilenetv2_100; across models there are four networks and four fractions.
    """
    fractions = (1 / 12, 1.0) if quick else TWELFTHS
    cross_fractions = (1.0,) if quick else tuple(twelfths / 12 for twelfths in FULL_SIZE_CROSS)
    base = cifar100(
        within_model=FULL_SIZE_MODELS[0],
        models=FULL_SIZE_MODELS,
        fractions=fractions,
        cross_fractions=cross_fractions,
        epochs=epochs,
        quick=quick,
        **options,
    )
    cross = (replace(trace, piece=len(FULL_SIZE_PIECES) + i)
             for trace in base.experiments[CROSS]
             for i, twelfths in enumerate(FULL_SIZE_CROSS)
             if twelfths == round(12 * trace.fraction))  # fmt: skip
    return replace(
        base,
        name="cifar100-224",
        title="The paper's setting, other networks and fewer traces: CIFAR-100 at 224 pixels",
        experiments={
            WITHIN: _in_pieces(base.experiments[WITHIN], FULL_SIZE_PIECES),
            CROSS: tuple(cross),
        },
        notes=base.notes + _notes("cifar100-224"),
        warm_up=0.7,
        recalibrations=LONG_RECALIBRATIONS,
    )


def _in_pieces(traces: Sequence[Trace], pieces: Sequence[Sequence[int]]) -> tuple[Trace, ...]:
    """Traces on twelfths of the data, each with its place in the order of work."""
    place = {twelfth: i for i, piece in enumerate(pieces) for twelfth in piece}
    return tuple(replace(trace, piece=place[round(12 * trace.fraction)]) for trace in traces)


def cifar100_lite0(
    *, models: Sequence[str] = LITE0_VARIANTS, epochs: int | None = None, quick: bool = False, **options: Any
) -> Preset:
    """CIFAR-100 with one network's weights, small images and few epochs: an hour of the paper's protocol on one GPU.

    The cross-model part is a substitute: nine variants (input size by frozen depth) of that one network.
    """
    options = {"within_model": f"{LITE0}@128", "image_size": 128, "learning_rate": 0.01, **options}
    base = cifar100(models=models, epochs=epochs or (2 if quick else 10), quick=quick, **options)
    notes = _notes("cifar100-lite0") if tuple(models) == LITE0_VARIANTS else ()
    return replace(base, name="cifar100-lite0", notes=base.notes + notes)


PRESETS: dict[str, Callable[..., Preset]] = {
    "letter": letter,
    "cifar100": cifar100,
    "cifar100-lite0": cifar100_lite0,
    "cifar100-long": cifar100_long,
    "cifar100-224": cifar100_224,
    "tiny": tiny,
}


def make_preset(name: str, **options: Any) -> Preset:
    """The named preset with these options; one it does not have is an error that lists those it has."""
    if name not in PRESETS:
        raise ValueError(f"expected a preset among {', '.join(PRESETS)}, got {name!r}")
    accepted = set(inspect.signature(PRESETS[name]).parameters)
    if "options" in accepted:
        accepted |= {*inspect.signature(cifar100).parameters, *(field.name for field in fields(CifarSettings))}
    if name in ("cifar100-long", "cifar100-224"):  # which fix these themselves
        accepted -= {"within_model", "models", "fractions", "image_size", "learning_rate"}
    accepted -= {"options"}
    unknown = sorted(set(options) - accepted)
    if unknown:
        raise ValueError(
            f"the preset {name!r} has no option {', '.join(unknown)}; it has {', '.join(sorted(accepted))}"
        )
    if "data" in accepted and options.get("data") is None:
        raise ValueError(f"the preset {name!r} needs data: the cifar-100-python folder")
    return PRESETS[name](**options)


def _notes(preset: str) -> tuple[str, ...]:
    text = files("reproduction").joinpath("data/notes.toml").read_text(encoding="utf-8")
    return tuple(" ".join(note.split()) for note in tomllib.loads(text)[preset])


def _traces(
    planned: Mapping[str, tuple[Sequence[str], Sequence[float]]], epochs: int, cost: Callable[[str, float], float]
) -> dict[str, tuple[Trace, ...]]:
    """Every model on every fraction, for each experiment."""
    pairs = {name: product(*both) for name, both in planned.items()}
    return {name: tuple(Trace(m, f, epochs, cost=cost(m, f)) for m, f in found) for name, found in pairs.items()}


def _open_letter(seed: int, held_out: int | None = None) -> MLPTrainer:
    """The perceptrons on Letter Recognition, measured on all held-out rows or on the first so many of each part."""
    data = read_letter()
    validation, test = (Split(part.X[:held_out], part.y[:held_out]) for part in (data.validation, data.test))
    return MLPTrainer(replace(data, validation=validation, test=test), seed)


def _open_cifar(data: str | Path, settings: CifarSettings) -> Trainer:
    from reproduction.cifar_trainer import CifarTrainer

    return CifarTrainer(read_cifar100(data), settings)


def from_folder(folder: str | Path) -> Preset:
    """A preset that trains nothing: checkpoints' logits stored by somebody else, or by ``keep_logits``."""
    root = Path(folder)
    if not (root / "labels.npz").is_file():
        raise FileNotFoundError(
            f"{root / 'labels.npz'}: no such file; expected arrays 'validation' and 'test' of labels"
        )
    experiments = {}
    for stored in sorted((path for path in root.glob("*/logits") if kind(path.parent.name) in KINDS), reverse=True):
        folders = sorted(path for path in stored.glob("*") if path.is_dir())
        if folders:
            experiments[stored.parent.name] = tuple(_stored_trace(root, path) for path in folders)
    if not experiments:
        raise FileNotFoundError(f"{root}: expected within/logits/<trace>/*.npz or cross/logits/<trace>/*.npz")
    return Preset("folder", "Stored logits", experiments, partial(FolderTrainer, root), {"folder": root.name})


class FolderTrainer:
    """Yields stored logits in the order of their files' names."""

    def __init__(self, root: Path) -> None:
        self.root = root
        labels = load_logits(root / "labels.npz")
        self.y_validation, self.y_test = (labels[part].astype(np.intp) for part in ("validation", "test"))

    def train(self, trace: Trace, state: Path | None = None) -> Iterator[Checkpoint]:
        for epoch, path in enumerate(sorted((self.root / trace.source).glob("*.npz")), start=1):
            arrays = load_logits(path)
            for part, labels in (("validation", self.y_validation), ("test", self.y_test)):
                shape = arrays[part].shape
                if len(shape) != 2 or shape[0] != len(labels):
                    raise ValueError(f"{path}: expected {part} logits of shape ({len(labels)}, classes), got {shape}")
            loss = arrays.get("train_loss")
            yield Checkpoint(epoch, arrays["validation"], arrays["test"], None if loss is None else float(loss))


def load_logits(path: Path) -> dict[str, Any]:
    expected = "the arrays 'validation' and 'test' (npz)"
    # opened here, since numpy leaves the file open where it is no archive
    with parsing(path, expected), path.open("rb") as file, np.load(file, allow_pickle=False) as content:
        arrays = {part: content[part] for part in ("validation", "test", "train_loss") if part in content}
    if missing := {"validation", "test"} - set(arrays):
        raise failure(path, f"expected {expected}, {sorted(missing)} missing")
    if odd := [part for part, array in arrays.items() if array.dtype.kind not in "iuf"]:
        raise failure(path, f"expected numbers, got dtype {arrays[odd[0]].dtype} in {odd[0]!r}")
    return arrays


def _stored_trace(root: Path, path: Path) -> Trace:
    described = path / "trace.json"
    given = read_json(described, "the model and the fraction of a trace") if described.is_file() else {}
    fraction = given.get("fraction", 1.0)
    if not isinstance(fraction, (int, float)) or not 0 < fraction <= 1:
        raise failure(described, f"expected a fraction in (0, 1], got {fraction!r}")
    source = path.relative_to(root).as_posix()
    epochs = len(list(path.glob("*.npz")))
    return Trace(str(given.get("model", path.name)), float(fraction), epochs, source=source)
