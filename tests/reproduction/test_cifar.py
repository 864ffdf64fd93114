"""The CIFAR-100 reader on made-up folders, and the trainer on a CPU with a stand-in model through the same code."""

from __future__ import annotations

import os
import pickle
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reproduction.datasets import Split, Splits, cifar100, nested_subset
from reproduction.running import Job, Stopped, run_traces
from reproduction.traces import Store, Trace, read_rows

from closeness import assert_close

torch = pytest.importorskip("torch")

from reproduction.cifar_models import Built, FullPrecisionLinear, _load_without_head  # noqa: E402  # after importorskip
from reproduction.cifar_trainer import CifarTrainer, crop_and_flip, resize  # noqa: E402  # after importorskip
from reproduction.presets import CifarSettings, Variant  # noqa: E402  # after importorskip

CLASSES = 5
TRAINED = 1e-4
"""To how much of their scale logits of networks in float32 agree that were trained alike: rounding grows by steps."""


def normalised(session: Any, images: list[Any]) -> Any:
    mean, std = (session._inputs.keywords[name] for name in ("mean", "std"))
    return (torch.stack(images) / 255 - mean) / std


def logits(checkpoints: Iterable[Any]) -> list[np.ndarray]:
    return [checkpoint.test for checkpoint in checkpoints]


def made_up(n: int, seed: int) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(0, CLASSES, n))  # sorted by class, as some distributions of the data are
    images = rng.integers(0, 60, (n, 3072)) + 45 * labels[:, None] % 190
    return images.astype(np.uint8), labels.tolist()


def write_folder(folder: Path, protocol: int = 4, fortran: bool = False) -> Path:
    root = folder / "cifar-100-python"
    root.mkdir(parents=True)
    for part, n, seed in (("train", 60, 0), ("test", 40, 1)):
        images, labels = made_up(n, seed)
        content = {b"data": np.asfortranarray(images) if fortran else images, b"fine_labels": labels,
                   b"coarse_labels": labels, b"filenames": [b"x.png"] * n, b"batch_label": b"made up"}  # fmt: skip
        (root / part).write_bytes(pickle.dumps(content, protocol=protocol))
    names = [f"class {j}".encode() for j in range(CLASSES)]
    (root / "meta").write_bytes(pickle.dumps({b"fine_label_names": names}, protocol=protocol))
    return folder


class TestReader:
    @pytest.mark.parametrize("protocol", range(6))
    @pytest.mark.parametrize("fortran", [False, True])
    def test_standard_layout(self, tmp_path: Path, protocol: int, fortran: bool) -> None:
        data = cifar100(write_folder(tmp_path, protocol, fortran), seed=3)
        images, labels = made_up(60, 0)
        assert np.array_equal(data.train.X.reshape(60, -1), images)
        assert data.train.X.shape == (60, 3, 32, 32) and data.train.X.dtype == np.uint8
        assert data.train.y.tolist() == labels
        assert data.classes == tuple(f"class {j}" for j in range(CLASSES))

    def test_official_test_part_is_halved_without_loss(self, tmp_path: Path) -> None:
        data = cifar100(write_folder(tmp_path) / "cifar-100-python", seed=3)
        images, labels = made_up(40, 1)
        both = np.concatenate([data.validation.X, data.test.X]).reshape(40, -1)
        assert len(data.validation) == len(data.test) == 20
        assert sorted(map(bytes, both)) == sorted(map(bytes, images))
        of_image = {bytes(image): label for image, label in zip(images, labels, strict=True)}
        for part in (data.validation, data.test):
            assert [of_image[image.tobytes()] for image in part.X] == part.y.tolist()
            assert len(set(part.y.tolist())) > 2  # mixed although the file is sorted by class

    def test_python_2_strings(self, tmp_path: Path) -> None:
        root = write_folder(tmp_path) / "cifar-100-python"
        # The opcodes of Python 2's pickle of {'fine_label_names': ['a', 'b', 'c', 'd', 'e']}: byte strings, protocol 0.
        (root / "meta").write_bytes(b"(dp0\nS'fine_label_names'\np1\n(lp2\nS'a'\naS'b'\naS'c'\naS'd'\naS'e'\nas.")
        assert cifar100(tmp_path).classes == ("a", "b", "c", "d", "e")

    def test_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="cifar-100-python layout"):
            cifar100(tmp_path / "nowhere")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({b"data": np.zeros((60, 3072), np.float32)}, "uint8 array"),
            ({b"data": np.zeros((60, 10), np.uint8)}, "shape \\(n, 3072\\)"),
            ({b"fine_labels": [0] * 59}, "60 images but 59 labels"),
            ({b"fine_labels": [CLASSES] * 60}, "integers from 0 to 4"),
            ({b"fine_labels": ["cat"] * 60}, "integers from 0 to 4"),
        ],
    )
    def test_wrong_content(self, tmp_path: Path, change: dict[bytes, object], words: str) -> None:
        root = write_folder(tmp_path) / "cifar-100-python"
        images, labels = made_up(60, 0)
        (root / "train").write_bytes(pickle.dumps({b"data": images, b"fine_labels": labels} | change))
        with pytest.raises(ValueError, match=words):
            cifar100(tmp_path)


class Calls:
    """Pickles as a call of ``function``."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.recipe = function, arguments

    def __reduce__(self) -> Any:
        return self.recipe


class TestHostilePickles:
    @pytest.mark.parametrize("protocol", [0, 2, 5])
    @pytest.mark.parametrize(
        "make",
        [
            lambda target: Calls(os.system, f"touch {target}"),
            lambda target: Calls(eval, f"open({str(target)!r}, 'w')"),
            lambda target: Calls(getattr, Calls(__import__, "os"), "system"),
            lambda target: np.array([Calls(os.mkdir, str(target))], dtype=object),
            lambda target: Calls(np.load, str(target)),
            lambda target: {b"data": Calls(open, str(target), "w")},
        ],
    )
    def test_refused_and_nothing_runs(self, tmp_path: Path, make: Any, protocol: int) -> None:
        target = tmp_path / "made"
        root = write_folder(tmp_path) / "cifar-100-python"
        (root / "train").write_bytes(pickle.dumps(make(target), protocol=protocol))
        with pytest.raises(ValueError, match="not a plain pickle"):
            cifar100(tmp_path)
        assert not target.exists()

    @pytest.mark.parametrize(
        "code",
        [
            b"cnumpy\nndarray\n(I1000000000000\ntR.",  # numpy.ndarray(10**12)
            b"cnumpy\ndtype\n(S'O8'\ntR.",  # an object dtype
            b"c_codecs\nencode\n(Vabc\nVrot13\ntR.",  # a codec of the caller's choice
            b"\x80\x02P0\n.",  # a persistent id
            b"not a pickle",
            b"",
        ],
    )
    def test_abused_names(self, tmp_path: Path, code: bytes) -> None:
        root = write_folder(tmp_path) / "cifar-100-python"
        (root / "train").write_bytes(code)
        with pytest.raises(ValueError, match="not a plain pickle"):
            cifar100(tmp_path)

    def test_not_a_dictionary(self, tmp_path: Path) -> None:
        root = write_folder(tmp_path) / "cifar-100-python"
        (root / "meta").write_bytes(pickle.dumps([1, 2]))
        with pytest.raises(ValueError, match="expected a dictionary, found list"):
            cifar100(tmp_path)


def test_nested_subsets() -> None:
    small, large = nested_subset(1000, 0.1, 7), nested_subset(1000, 0.4, 7)
    assert len(small) == 100 and len(large) == 400
    assert set(small.tolist()) <= set(large.tolist())
    assert len(set(large.tolist())) == 400
    assert nested_subset(1000, 0.1, 8).tolist() != small.tolist()
    with pytest.raises(ValueError, match="fraction"):
        nested_subset(10, 0.0, 7)


def stand_in(name: str, n_classes: int, *, pretrained: bool, weights: Path | None) -> Built:
    """A small network with the parts a real one has: a stem and stages with batch normalisation, and a head."""
    nn = torch.nn
    stem = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU())
    stage = nn.Sequential(nn.Conv2d(4, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU())
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = nn.Sequential(stem, stage, pool, FullPrecisionLinear(8, n_classes))
    return Built(model, [[stem], [stage]], (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def open_stand_in(folder: str, settings: CifarSettings) -> CifarTrainer:
    torch.set_num_threads(1)
    return CifarTrainer(cifar100(folder), settings, builder=stand_in)


@pytest.fixture
def settings() -> CifarSettings:
    return CifarSettings(image_size=16, learning_rate=0.1, batch_size=16, precision="fp32", device="cpu")


@pytest.fixture
def trainer(tmp_path: Path, settings: CifarSettings) -> CifarTrainer:
    return open_stand_in(str(write_folder(tmp_path / "data")), settings)


class TestTrainer:
    @pytest.mark.slow
    def test_learns(self, trainer: CifarTrainer) -> None:
        epochs = list(trainer.train(Trace("net", 1.0, 25)))
        assert [c.epoch for c in epochs] == list(range(1, 26))
        assert epochs[0].validation.shape == epochs[0].test.shape == (20, CLASSES)
        mistakes = [np.mean(c.test.argmax(axis=1) != trainer.y_test) for c in epochs]
        assert mistakes[-1] < 0.35 < mistakes[0]

    def test_logits_are_the_models_on_the_right_rows(self, trainer: CifarTrainer) -> None:
        (checkpoint,) = trainer.train(Trace("net", 1.0, 1))
        assert trainer._session is not None
        model = trainer._session[1].model.eval()
        mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)))
        with torch.no_grad():
            large = torch.nn.functional.interpolate(trainer.held_out.float(), (16, 16), mode="bilinear")
            expected = model((large / 255 - mean) / std).numpy()
        np.testing.assert_allclose(np.concatenate([checkpoint.validation, checkpoint.test]), expected, atol=1e-5)

    def test_same_seed_same_network_and_traces_do_not_leak(self, trainer: CifarTrainer) -> None:
        first = list(trainer.train(Trace("net", 0.5, 3)))
        list(trainer.train(Trace("net", 1.0, 2)))
        again = list(trainer.train(Trace("net", 0.5, 3)))
        assert_close(logits(again), logits(first), 1, TRAINED)
        other = list(trainer.train(Trace("net", 0.4, 3)))
        assert np.abs(first[-1].test - other[-1].test).max() > 10 * TRAINED

    def test_resumes_from_its_state_as_if_it_had_gone_on(
        self, tmp_path: Path, trainer: CifarTrainer, settings: CifarSettings
    ) -> None:
        trace, state = Trace("net", 1.0, 4), tmp_path / "net.state"
        whole = list(trainer.train(trace))
        begun = trainer.train(trace, state)
        next(begun), next(begun)
        fresh = open_stand_in(str(tmp_path / "data"), settings)
        rest = list(fresh.train(trace, state))
        assert [c.epoch for c in rest] == [2, 3, 4]
        assert_close(logits(rest), logits(whole[1:]), 1, TRAINED)

    def test_frozen_stages_keep_weights_and_statistics(self, trainer: CifarTrainer) -> None:
        def parts(model: str) -> tuple[dict[str, object], dict[str, object]]:
            list(trainer.train(Trace(model, 1.0, 2)))
            assert trainer._session is not None
            return trainer._session[1].initial, trainer._session[1].model.state_dict()

        for model, frozen in (("net", ()), ("net+freeze0", ("0.",)), ("net+freeze1", ("0.", "1."))):
            before, after = parts(model)
            changed = {key.split(".")[0] + "." for key in before if not torch.equal(before[key], after[key])}
            assert changed == {"0.", "1.", "3."} - set(frozen)
        with pytest.raises(ValueError, match="cannot freeze 2"):
            parts("net+freeze2")

    def test_bf16_trains_and_gives_float32_logits(self, tmp_path: Path, trainer: CifarTrainer) -> None:
        mixed = CifarSettings(image_size=16, learning_rate=0.1, batch_size=16, precision="bf16", device="cpu")
        (a,) = open_stand_in(str(tmp_path / "data"), mixed).train(Trace("net", 1.0, 1))
        (b,) = trainer.train(Trace("net", 1.0, 1))
        assert a.test.dtype == np.float32
        assert not np.array_equal(a.test, a.test.astype(np.float16))  # more digits than a 16-bit head would leave
        assert 0 < np.abs(a.test - b.test).max() < 0.3

    def test_a_traces_own_learning_rate(self, tmp_path: Path, trainer: CifarTrainer, settings: CifarSettings) -> None:
        """Two arms see the same images from the same start: the rate in the trace is the rate in the settings."""
        slow = open_stand_in(str(tmp_path / "data"), replace(settings, learning_rate=0.01))
        own = list(trainer.train(Trace("net", 0.5, 2, learning_rate=0.01)))
        assert_close(logits(slow.train(Trace("net", 0.5, 2))), logits(own), 1, TRAINED)
        (other, *_) = trainer.train(Trace("net", 0.5, 2))
        assert np.abs(own[0].test - other.test).max() > 10 * TRAINED

    def test_train_loss_is_that_of_the_batches_before_their_steps(self, trainer: CifarTrainer) -> None:
        (checkpoint,) = trainer.train(Trace("net", 0.2, 1, learning_rate=1e-30))  # twelve images, one batch of 16
        assert trainer._session is not None
        session = trainer._session[1]
        rng = np.random.default_rng([42, zlib.crc32(b"net-020.0"), 1])
        order, shift = np.resize(rng.permutation(12), 16), rng.integers(0, 9, size=(2, 16))
        flip, rows = rng.random(16) < 0.5, nested_subset(60, 0.2, 42)
        images = [one_image(trainer.images[rows[i]], 16, *where) for i, *where in zip(order, *shift, flip, strict=True)]
        session.reset()
        session.model.train()
        with torch.no_grad():
            logits = session.model(normalised(session, images))
        expected = torch.nn.functional.cross_entropy(logits, trainer.labels[rows[order]])
        assert checkpoint.train_loss == pytest.approx(float(expected), rel=1e-5)

    def test_divergence_is_reported(self, tmp_path: Path, trainer: CifarTrainer) -> None:
        wild = CifarSettings(image_size=16, learning_rate=1e30, batch_size=16, precision="fp32", device="cpu")
        with pytest.raises(FloatingPointError, match=r"net-100\.0: training diverged by epoch"):
            list(open_stand_in(str(tmp_path / "data"), wild).train(Trace("net", 1.0, 3)))

    @pytest.mark.slow
    def test_one_step_is_momentum_sgd_with_cosine_decay(self, trainer: CifarTrainer, settings: CifarSettings) -> None:
        """Two epochs of one batch each, against the update written out."""
        trace = Trace("net", 0.2, 2)
        list(trainer.train(trace))
        assert trainer._session is not None
        session = trainer._session[1]
        trained = {name: p.detach().clone() for name, p in session.model.named_parameters()}
        session.reset()
        velocity = {name: torch.zeros_like(p) for name, p in session.model.named_parameters()}
        subset = nested_subset(60, 0.2, settings.seed)
        for epoch, rate in ((1, 0.1), (2, 0.05)):
            rng = np.random.default_rng([settings.seed, zlib.crc32(trace.name.encode()), epoch])
            order = np.resize(rng.permutation(12), 16)
            top, left = rng.integers(0, 9, size=(2, 16))
            flip = rng.random(16) < 0.5
            images = [one_image(trainer.images[subset[i]], 16, *where) for i, *where in zip(order, top, left, flip)]  # noqa: B905  # equal by construction
            session.model.train()
            session.model.zero_grad()
            loss = torch.nn.functional.cross_entropy(
                session.model(normalised(session, images)), trainer.labels[subset[order]]
            )
            loss.backward()
            with torch.no_grad():
                for name, p in session.model.named_parameters():
                    velocity[name] = 0.9 * velocity[name] + p.grad + 5e-4 * p
                    p -= rate * velocity[name]
        for name, p in session.model.named_parameters():
            torch.testing.assert_close(p.detach(), trained[name], rtol=1e-4, atol=1e-6)


def one_image(image: Any, size: int, top: int, left: int, flip: bool) -> Any:
    """Resize, pad by four, crop, mirror: one image, step by step."""
    large = torch.nn.functional.interpolate(image[None].float(), (size, size), mode="bilinear")[0]
    canvas = torch.zeros(3, size + 8, size + 8)
    canvas[:, 4 : 4 + size, 4 : 4 + size] = large
    cut = canvas[:, top : top + size, left : left + size]
    return cut.flip(-1) if flip else cut


def test_crop_and_flip_against_one_image_at_a_time() -> None:
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (7, 3, 32, 32)).astype(np.uint8))
    top, left = (torch.from_numpy(rng.integers(0, 9, 7)) for _ in range(2))
    flip = torch.from_numpy(rng.random(7) < 0.5)
    assert flip.any() and not flip.all()
    result = crop_and_flip(resize(images, 20), top, left, flip)
    for i in range(7):
        assert torch.equal(result[i], one_image(images[i], 20, int(top[i]), int(left[i]), bool(flip[i])))


class TestWeights:
    """Stored weights may lack the head, which is replaced, and nothing else."""

    def model(self) -> Any:
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, CLASSES))

    @pytest.mark.parametrize("with_head", [False, True])
    def test_with_and_without_a_head(self, tmp_path: Path, with_head: bool) -> None:
        state = {key: torch.full_like(value, 2) for key, value in self.model().state_dict().items() if key[0] != "2"}
        if with_head:
            state |= {"2.weight": torch.zeros(1000, 4), "2.bias": torch.zeros(1000)}  # of other classes: dropped
        torch.save(state, tmp_path / "net.pth")
        model, fresh = self.model(), self.model()
        _load_without_head(model, tmp_path / "net.pth", "2")
        assert torch.equal(model[0].weight, torch.full_like(model[0].weight, 2))
        assert torch.equal(model[2].weight, fresh[2].weight)

    @pytest.mark.parametrize("change", ["missing", "unexpected"])
    def test_other_weights_are_refused(self, tmp_path: Path, change: str) -> None:
        state = self.model().state_dict()
        if change == "missing":
            del state["1.running_mean"]
        else:
            state["7.weight"] = torch.zeros(1)
        torch.save(state, tmp_path / "net.pth")
        with pytest.raises(ValueError, match=f"not this model's weights: .*{change} \\['?(1.running_mean|7.weight)"):
            _load_without_head(self.model(), tmp_path / "net.pth", "2")


def test_variants() -> None:
    assert Variant.parse("resnet18", 224) == Variant("resnet18", 224, None)
    assert Variant.parse("net@64", 224) == Variant("net", 64, None)
    for wrong in ("net@", "net+frozen", "a b", "net@64+freeze"):
        with pytest.raises(ValueError, match=r"name\[@size\]\[\+freezeN\]"):
            Variant.parse(wrong, 224)


def test_no_cuda_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    empty = Split(np.zeros((2, 3, 32, 32), np.uint8), np.zeros(2, np.intp))
    with pytest.raises(RuntimeError, match="no CUDA device"):
        CifarTrainer(Splits(empty, empty, empty, ("a", "b")), CifarSettings(), builder=stand_in)


@pytest.mark.slow
def test_time_limit_stops_and_a_later_run_ends_alike(
    tmp_path: Path, trainer: CifarTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = [Trace("net", f, 4, cost=f) for f in (0.5, 1.0)]

    def score(checkpoint: Any, y_validation: object, y_test: object) -> dict[str, float]:
        return {"sum": float(checkpoint.test.astype(np.float64).sum())}

    expected = run_traces(Job(lambda: trainer, score, Store(tmp_path / "a")), traces)
    clock = iter([0.0, 0.0, 0.0, 0.0, 0.0, 100.0])
    monkeypatch.setattr("reproduction.running.time.time", lambda: next(clock, 0.0))
    store = Store(tmp_path / "b")
    with pytest.raises(Stopped):
        run_traces(Job(lambda: trainer, score, store, deadline=50.0), traces)
    (left,) = (path for path in (tmp_path / "b" / "partial").glob("*.state"))
    assert left.name == "net-050.0.state"  # the longer trace was done first
    rows = run_traces(Job(lambda: trainer, score, store), traces)
    assert_close(rows, expected, 1, TRAINED)
    assert read_rows(tmp_path / "b" / "checkpoints.csv") == rows
    assert not (tmp_path / "b" / "partial").exists()
