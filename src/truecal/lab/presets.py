"""The experiments on offer: a preset is data plus a trainer, and the traces to train with it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from truecal.io.failures import failure, parsing
from truecal.lab.datasets import cifar100 as read_cifar100
from truecal.lab.datasets import letter as read_letter
from truecal.lab.folder import read_json
from truecal.lab.letter_trainer import MLPTrainer
from truecal.lab.traces import CROSS, KINDS, WITHIN, Checkpoint, Trace, Trainer, kind

FORTIETHS = tuple(i / 40 for i in range(1, 41))
FIFTHS = (0.2, 0.4, 0.6, 0.8, 1.0)
# Warm-up ends where a checkpoint gets at least half of the validation set right: fixed for every preset, unseen.
WARM_UP = 0.5

LETTER_MODELS = (
    *("mlp-16", "mlp-32", "mlp-64", "mlp-128", "mlp-256"),
    *("mlp-32-32", "mlp-64-64", "mlp-128-128", "mlp-64-64-64"),
)
PAPER_MODELS = (
    *("mobilenetv3_small_050", "mobilenetv3_small_075", "mobilenetv3_small_100"),
    *("resnet10t", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
)
LITE0 = "tf_efficientnet_lite0"
LONG_RATES = (0.001, 0.02)
TWELFTHS = tuple(i / 12 for i in range(1, 13))
# The order of work where time is short: every second fraction of both arms, then these pairs one after the other.
LONG_PIECES = ((1, 3, 5, 7, 9, 11), (12,), (6,), (2,), (4,), (8,), (10,))
LONG_MODELS = tuple(
    f"{name}@{size}"
    for name in (LITE0, "tf_efficientnet_lite1", "tf_efficientnet_lite2", "mobilenetv2_100")
    for size in (64, 96)
)
LITE0_VARIANTS = tuple(f"{LITE0}@{size}{frozen}" for size in (64, 96, 128) for frozen in ("", "+freeze4", "+freeze6"))


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
    fractions = tuple(fractions or (FORTIETHS[4::5] if quick else FORTIETHS))
    cross_fractions = tuple(cross_fractions or ((0.2, 1.0) if quick else FIFTHS))
    models = tuple(models[1::2] if quick and models == LETTER_MODELS else models)

    def trace(model: str, fraction: float) -> Trace:
        return Trace(model, fraction, epochs, cost=0.5 + fraction)

    return Preset(
        "letter",
        "Letter Recognition, scikit-learn perceptrons",
        _experiments(trace, within_model, fractions, models, cross_fractions),
        partial(_open_letter, seed),
        {"seed": seed, "epochs": epochs},
        notes=(
            "The paper's protocol carried over to Letter Recognition (16 features, 26 classes; 10,000 training, 5,000 "
            "validation and 5,000 test rows), with multi-layer perceptrons trained by Adam instead of image networks. "
            "It is a small stand-in for CIFAR-100, not a repetition of the paper's numbers.",
        ),
        processes=min(2, os.cpu_count() or 1),
    )


def tiny(*, seed: int = 42, quick: bool = False) -> Preset:
    """The whole pipeline in seconds: a few short traces of small perceptrons, for trying things out."""
    small = letter(
        seed=seed,
        epochs=3,
        fractions=(0.1, 0.4, 1.0),
        cross_fractions=(0.2, 1.0),
        models=("mlp-8", "mlp-32"),
        within_model="mlp-16",
    )
    return replace(
        small,
        name="tiny",
        title="Toy run on Letter Recognition",
        notes=("A toy run that shows the pipeline; its numbers mean nothing.",),
        warm_up=0.9,
        processes=1,
    )


def cifar100(
    *,
    data: str | Path,
    seed: int = 42,
    quick: bool = False,
    weights: str | Path | None = None,
    within_model: str = "mobilenetv3_small_100",
    models: Sequence[str] = PAPER_MODELS,
    fractions: Sequence[float] | None = None,
    cross_fractions: Sequence[float] | None = None,
    epochs: int | None = None,
    image_size: int = 224,
    learning_rate: float = 1e-3,
    momentum: float = 0.9,
    weight_decay: float = 5e-4,
    batch_size: int = 256,
    precision: str = "bf16",
    pretrained: bool = True,
    device: str = "cuda",
    cuda_graphs: bool = False,
    channels_last: bool = True,
    name: str = "cifar100",
    notes: tuple[str, ...] = (),
) -> Preset:
    """CIFAR-100 with timm's networks on a GPU: by default the paper's protocol in full."""
    from truecal.lab.cifar_trainer import CifarSettings

    settings = CifarSettings(
        image_size=image_size,
        learning_rate=learning_rate,
        momentum=momentum,
        weight_decay=weight_decay,
        batch_size=batch_size,
        precision=precision,
        pretrained=pretrained,
        weights=None if weights is None else str(weights),
        device=device,
        cuda_graphs=cuda_graphs,
        channels_last=channels_last,
        seed=seed,
    )
    epochs = epochs or (2 if quick else 100)
    fractions = tuple(fractions or ((0.1, 0.5, 1.0) if quick else FORTIETHS))
    cross_fractions = tuple(cross_fractions or ((1.0,) if quick else FIFTHS))

    def trace(model: str, fraction: float) -> Trace:
        return Trace(model, fraction, epochs, cost=_image_cost(model, fraction, image_size))

    machine_only = {"weights", "device", "cuda_graphs", "channels_last"}
    recorded = {key: value for key, value in asdict(settings).items() if key not in machine_only} | {"epochs": epochs}
    paper = asdict(CifarSettings()) | {"epochs": 100}
    unlike = [f"{key.replace('_', ' ')} {value} (paper: {paper[key]})" for key, value in recorded.items()
              if key != "seed" and value != paper[key]]  # fmt: skip
    if within_model != "mobilenetv3_small_100":
        unlike.insert(0, f"within-model network {within_model} (paper: mobilenetv3_small_100)")
    if unlike:
        notes = (f"The paper's protocol, except for: {', '.join(unlike)}.", *notes)
    return Preset(
        name,
        f"CIFAR-100, {within_model} within, {len(models)} models across",
        _experiments(trace, within_model, fractions, tuple(models), cross_fractions),
        partial(_open_cifar, str(data), settings),
        recorded,
        notes=notes,
        processes=5 if device.startswith("cuda") else 1,
        beside_paper=True,
    )


def _image_cost(model: str, fraction: float, image_size: int) -> float:
    """Relative work of an epoch: training on a fraction of the images, then a forward pass over the held-out ones."""
    from truecal.lab.cifar_trainer import Variant

    variant = Variant.parse(model, image_size)
    backward = 1.0 if variant.frozen is None else 0.6
    return (variant.image_size / 224) ** 2 * (fraction * backward + 0.07)


LONG_NOTES = (
    "Two arms of the within-model experiment differ in the learning rate alone: the same network, 64-pixel inputs, "
    "subsets, seeds, order of images and 100 epochs. Rates, fractions, warm-up threshold and the order of work were "
    "written into the preset before any of its runs. The two rates themselves, and the question, came from earlier "
    "looks at single runs with other sizes and fractions.",
    "Cross-model is a SUBSTITUTE for the paper's nine architectures: tf_efficientnet_lite0, lite1, lite2 and "
    "mobilenetv2_100, each at 64 and at 96 pixels, for 10 epochs at learning rate 0.01.",
    "The isotonic regression of the confidence itself was added to the measurements after the first traces were seen, "
    "which lack it; nothing else was changed.",
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
        epochs=epochs or (2 if quick else 100),
        quick=quick,
        name="cifar100-long",
        notes=LONG_NOTES,
        **options,
    )
    within = tuple(replace(trace, piece=_long_piece(trace.fraction)) for trace in base.experiments[WITHIN])
    arms = {
        f"{WITHIN}-lr{rate:g}": tuple(replace(trace, learning_rate=rate) for trace in within) for rate in LONG_RATES
    }
    cross = tuple(
        replace(trace, learning_rate=0.01, epochs=min(trace.epochs, 10), piece=len(LONG_PIECES))
        for trace in base.experiments[CROSS]
    )
    return replace(
        base,
        title=f"CIFAR-100, {LITE0} at two learning rates, {len(LONG_MODELS)} models across",
        experiments={**arms, CROSS: cross},
        settings={**base.settings, "learning_rate": {**dict(zip(arms, LONG_RATES, strict=True)), CROSS: 0.01}},
        warm_up=0.7,
        recalibrations=("none", "vector", "isotonic", "top"),
    )


def _long_piece(fraction: float) -> int:
    twelfths = round(12 * fraction)
    return next(i for i, piece in enumerate(LONG_PIECES) if twelfths in piece)


LITE0_NOTE = (
    "Cross-model is a SUBSTITUTE for the paper's nine architectures: nine variants of tf_efficientnet_lite0, input "
    "sizes 64, 96 and 128 by frozen depth (nothing; the stem and the first four stages; all but the last stage and the "
    "head). They share one set of ImageNet weights, so they differ less from one another than nine architectures."
)


def cifar100_lite0(
    *,
    within_model: str = f"{LITE0}@128",
    models: Sequence[str] = LITE0_VARIANTS,
    epochs: int | None = None,
    quick: bool = False,
    image_size: int = 128,
    learning_rate: float = 0.01,
    **options: Any,
) -> Preset:
    """CIFAR-100 with one network's weights, small images and few epochs: an hour of the paper's protocol on one GPU.

    The cross-model part is a substitute: nine variants (input size by frozen depth) of that one network.
    """
    return cifar100(
        within_model=within_model,
        models=models,
        epochs=epochs or (2 if quick else 10),
        quick=quick,
        image_size=image_size,
        learning_rate=learning_rate,
        name="cifar100-lite0",
        notes=(LITE0_NOTE,) if tuple(models) == LITE0_VARIANTS else (),
        **options,
    )


PRESETS: dict[str, Callable[..., Preset]] = {
    "letter": letter,
    "cifar100": cifar100,
    "cifar100-lite0": cifar100_lite0,
    "cifar100-long": cifar100_long,
    "tiny": tiny,
}


def make_preset(name: str, **options: Any) -> Preset:
    """The named preset with these options; one it does not have is an error that lists those it has."""
    if name not in PRESETS:
        raise ValueError(f"expected a preset among {', '.join(PRESETS)}, got {name!r}")
    accepted = set(inspect.signature(PRESETS[name]).parameters)
    if "options" in accepted:  # they are those of cifar100 that the preset does not fix itself
        accepted |= set(inspect.signature(cifar100).parameters)
    if name == "cifar100-long":
        accepted -= {"within_model", "models", "fractions", "image_size", "learning_rate"}
    accepted -= {"name", "notes", "options"}
    unknown = sorted(set(options) - accepted)
    if unknown:
        raise ValueError(
            f"the preset {name!r} has no option {', '.join(unknown)}; it has {', '.join(sorted(accepted))}"
        )
    if "data" in accepted and options.get("data") is None:
        raise ValueError(f"the preset {name!r} needs data: the cifar-100-python folder")
    return PRESETS[name](**options)


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
        labels = _load_arrays(root / "labels.npz")
        self.y_validation, self.y_test = (labels[part].astype(np.intp) for part in ("validation", "test"))

    def train(self, trace: Trace, state: Path | None = None) -> Iterator[Checkpoint]:
        for epoch, path in enumerate(sorted((self.root / trace.source).glob("*.npz")), start=1):
            arrays = _load_arrays(path)
            for part, labels in (("validation", self.y_validation), ("test", self.y_test)):
                shape = arrays[part].shape
                if len(shape) != 2 or shape[0] != len(labels):
                    raise ValueError(f"{path}: expected {part} logits of shape ({len(labels)}, classes), got {shape}")
            loss = arrays.get("train_loss")
            yield Checkpoint(epoch, arrays["validation"], arrays["test"], None if loss is None else float(loss))


def _load_arrays(path: Path) -> dict[str, Any]:
    expected = "the arrays 'validation' and 'test' (npz)"
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


def _open_letter(seed: int) -> MLPTrainer:
    return MLPTrainer(read_letter(), seed)


def _open_cifar(data: str, settings: Any) -> Trainer:
    from truecal.lab.cifar_trainer import CifarTrainer

    return CifarTrainer(read_cifar100(data), settings)


def _experiments(
    trace: Callable[[str, float], Trace],
    within_model: str,
    fractions: Sequence[float],
    models: Sequence[str],
    cross_fractions: Sequence[float],
) -> dict[str, tuple[Trace, ...]]:
    return {
        WITHIN: tuple(trace(within_model, fraction) for fraction in fractions),
        CROSS: tuple(trace(model, fraction) for model in models for fraction in cross_fractions),
    }
