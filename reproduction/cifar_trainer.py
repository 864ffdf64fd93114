"""Trains image classifiers on CIFAR-100 with the images held on the device, and yields every epoch's logits."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from reproduction.cifar_models import Built, build
from reproduction.datasets import Splits, nested_subset
from reproduction.presets import CifarSettings, Variant
from reproduction.traces import Checkpoint, Trace
from truecal.io import atomic_path

SIZE = 32, 32  # of CIFAR's images
PADDING = 4  # pixels of black around the resized image before the random crop


Builder = Callable[..., Built]  # what makes a model: `cifar_models.build`, or a stand-in


class CifarTrainer:
    """Trains one trace after another; the model and the tuned kernels of the last variant stay on the device."""

    def __init__(self, data: Splits, settings: CifarSettings, builder: Builder = build) -> None:
        if settings.device.startswith("cuda") and not torch.cuda.is_available():
            raise RuntimeError("no CUDA device is available; --device cpu trains without one, very slowly")
        torch.backends.cudnn.benchmark = True  # shapes are fixed, so tuning pays once per variant
        self.settings = settings
        self.builder = builder
        self.n_classes = data.n_classes
        device = torch.device(settings.device)
        self.images = torch.from_numpy(data.train.X).to(device)
        self.labels = torch.from_numpy(data.train.y.astype(np.int64)).to(device)
        self.held_out = torch.from_numpy(np.concatenate([data.validation.X, data.test.X])).to(device)
        self.y_validation, self.y_test = data.validation.y, data.test.y
        self._session: tuple[Variant, _Session] | None = None

    def train(self, trace: Trace, state: Path | None = None) -> Iterator[Checkpoint]:
        """Yield each epoch's logits; with ``state``, save after each epoch and begin with the epoch saved there."""
        session = self._open(Variant.parse(trace.model, self.settings.image_size))
        subset = nested_subset(len(self.images), trace.fraction, self.settings.seed)
        rows = torch.from_numpy(subset).to(self.images.device)
        session.reset()
        done = session.load(state) if state is not None and state.is_file() else 0
        if done:
            yield self._checkpoint(session, trace, done)
        for epoch in range(done + 1, trace.epochs + 1):
            self._train_epoch(session, trace, rows, epoch)
            if state is not None and epoch < trace.epochs:
                session.save(state, epoch)
            yield self._checkpoint(session, trace, epoch)

    def _open(self, variant: Variant) -> _Session:
        if self._session is None or self._session[0] != variant:
            self._session = None  # frees the old one before the new one is built
            self._session = variant, _Session(variant, self.settings, self.n_classes, self.builder)
        return self._session[1]

    def _train_epoch(self, session: _Session, trace: Trace, rows: Tensor, epoch: int) -> None:
        batch, device = self.settings.batch_size, self.images.device
        rng = np.random.default_rng([self.settings.seed, zlib.crc32(trace.name.encode()), epoch])
        n_batches = -(-len(rows) // batch)
        # Every batch is full, so that shapes never change: the last is filled up from the epoch's first images.
        order = np.resize(rng.permutation(len(rows)), n_batches * batch)
        corners, flips = rng.integers(0, 2 * PADDING + 1, size=(2, len(order))), rng.random(len(order)) < 0.5
        crops = torch.from_numpy(np.stack([*corners, flips])).to(device)
        picked = rows[torch.from_numpy(order).to(device)]
        session.start_epoch(cosine(trace.learning_rate or self.settings.learning_rate, epoch, trace.epochs))
        for begin in range(0, len(order), batch):
            part = slice(begin, begin + batch)
            index = picked[part]
            session.step(self.images[index], self.labels[index], crops[:, part])

    def _checkpoint(self, session: _Session, trace: Trace, epoch: int) -> Checkpoint:
        logits = session.logits(self.held_out)
        if not np.isfinite(logits).all():
            raise FloatingPointError(f"{trace.name}: training diverged by epoch {epoch}; lower the learning rate")
        n_validation = len(self.y_validation)
        return Checkpoint(epoch, logits[:n_validation], logits[n_validation:], session.train_loss())


class _Session:
    """One variant on the device: the model, its optimiser and, on request, the captured training step."""

    def __init__(self, variant: Variant, settings: CifarSettings, n_classes: int, builder: Builder) -> None:
        torch.manual_seed(settings.seed)  # the new head is the same for every trace of a variant
        weights = None if settings.weights is None else Path(settings.weights)
        built = builder(variant.name, n_classes, pretrained=settings.pretrained, weights=weights)
        self.variant, self.settings, self._size = variant, settings, variant.image_size
        self.device = torch.device(settings.device)
        self.layout = torch.channels_last if settings.channels_last else torch.contiguous_format
        # torch's stubs miss this form
        self.model = built.model.to(self.device, memory_format=self.layout)  # type: ignore[call-overload]
        compiled = partial(torch.compile, dynamic=False) if settings.compile else lambda function: function
        self._forward = compiled(self.model)
        mean, std = (torch.tensor(values, device=self.device).view(1, -1, 1, 1) for values in (built.mean, built.std))
        self._inputs = partial(compiled(inputs), size=variant.image_size, mean=mean, std=std, layout=self.layout)
        self.frozen = _freeze(built, variant)
        self.initial = {key: value.clone() for key, value in self.model.state_dict().items()}
        self.rate = torch.tensor(settings.learning_rate, device=self.device)  # a captured step sees its changes
        self.weights = [p for p in self.model.parameters() if p.requires_grad]
        self.momentum = [torch.zeros_like(p, memory_format=torch.preserve_format) for p in self.weights]
        self.loss_sum, self.steps = torch.zeros((), device=self.device), 0
        self._mark: torch.cuda.Event | None = None
        self._replay: Callable[[Tensor, Tensor, Tensor], None] | None = None
        if settings.cuda_graphs and self.device.type == "cuda":
            self._replay = self._capture()

    def reset(self) -> None:
        """Back to the initial weights and no momentum, in place: a captured step keeps pointing at them."""
        self.model.load_state_dict(self.initial)
        torch._foreach_zero_(self.momentum)

    def start_epoch(self, rate: float) -> None:
        self.rate.fill_(rate)
        self.loss_sum.zero_()
        self.steps = 0
        self._training_mode()

    def train_loss(self) -> float:
        """Mean cross-entropy of the epoch's batches, each before its step."""
        return float(self.loss_sum) / self.steps

    def step(self, images: Tensor, labels: Tensor, crops: Tensor) -> None:
        """One step on a batch of raw images; ``crops`` has each one's top, left and whether it is flipped."""
        (self._replay or self._step)(images, labels, crops)
        self.steps += 1
        if self.steps % 16 == 0:
            self._stay_near()

    def _stay_near(self) -> None:
        """Wait, asleep, for all steps but the last few: with a full queue, or in .cpu(), a thread spins on its core."""
        if self.device.type == "cuda":
            # torch's events are untyped
            before, self._mark = self._mark, torch.cuda.Event(blocking=True)
            self._mark.record()
            if before is not None:
                before.synchronize()

    def logits(self, images: Tensor) -> NDArray[np.float32]:
        """Logits of all images in batches of one size, brought to the host once."""
        self.model.eval()
        batch = min(2**24 // self._size**2, len(images))
        parts = []
        with torch.inference_mode(), self._autocast():
            for begin in range(0, len(images), batch):
                begin = min(begin, len(images) - batch)  # the last batch overlaps rather than shrinks
                parts.append((begin, self._forward(self._inputs(images[begin : begin + batch]))))
        result = torch.empty(len(images), parts[0][1].shape[1], device=self.device)
        for begin, part in parts:
            result[begin : begin + batch] = part
        self._stay_near()
        self._stay_near()  # twice: up to this moment
        return result.float().cpu().numpy()

    def save(self, path: Path, epoch: int) -> None:
        content = {"epoch": epoch, "model": self.model.state_dict(), "momentum": self.momentum,
                   "loss_sum": self.loss_sum, "steps": self.steps}  # fmt: skip
        with atomic_path(path) as temporary:
            torch.save(content, temporary)

    def load(self, path: Path) -> int:
        content: dict[str, Any] = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(content["model"])
        torch._foreach_copy_(self.momentum, content["momentum"])
        self.loss_sum.copy_(content["loss_sum"])
        self.steps = int(content["steps"])
        return int(content["epoch"])

    def _training_mode(self) -> None:
        self.model.train()
        for module in self.frozen:
            module.eval()  # a frozen batch normalisation keeps its statistics too

    def _autocast(self) -> torch.autocast:
        enabled = self.settings.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=enabled, cache_enabled=False)

    def _step(self, images: Tensor, labels: Tensor, crops: Tensor) -> None:
        """Gradient of the cross-entropy, then v <- momentum v + gradient + decay w and w <- w - rate v."""
        with self._autocast():
            loss = F.cross_entropy(self._forward(self._inputs(images, crops)), labels)
        gradients = list(torch.autograd.grad(loss, self.weights))
        with torch.no_grad():
            self.loss_sum += loss
            gradients = [_with_strides_of(w, g) for w, g in zip(self.weights, gradients, strict=True)]
            torch._foreach_add_(gradients, self.weights, alpha=self.settings.weight_decay)
            torch._foreach_mul_(self.momentum, self.settings.momentum)
            torch._foreach_add_(self.momentum, gradients)
            torch._foreach_sub_(self.weights, torch._foreach_mul(self.momentum, self.rate))

    def _capture(self) -> Callable[[Tensor, Tensor, Tensor], None]:
        """Record one training step as a CUDA graph: hundreds of kernels launched at once, free of Python."""
        batch, device = self.settings.batch_size, self.device
        images = torch.zeros((batch, 3, *SIZE), dtype=torch.uint8, device=device)
        labels, crops = (torch.zeros(shape, dtype=torch.int64, device=device) for shape in ((batch,), (3, batch)))
        self._training_mode()
        side = torch.cuda.Stream()  # torch leaves it untyped
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # off the main stream, and before the capture: kernels are tuned here
            for _ in range(3):
                self._step(images, labels, crops)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step(images, labels, crops)

        def replay(new_images: Tensor, new_labels: Tensor, new_crops: Tensor) -> None:
            images.copy_(new_images)
            labels.copy_(new_labels)
            crops.copy_(new_crops)
            graph.replay()

        return replay


def cosine(rate: float, epoch: int, epochs: int) -> float:
    """The learning rate of an epoch (from 1) under cosine decay."""
    return float(rate * (1 + np.cos(np.pi * (epoch - 1) / epochs)) / 2)


def resize(images: Tensor, size: int) -> Tensor:
    """uint8 images (n, 3, h, w) as float (n, 3, size, size), 0 to 255, bilinear."""
    values = images.float()
    if values.shape[-1] == size:
        return values
    return F.interpolate(values, size=(size, size), mode="bilinear", align_corners=False)


def crop_and_flip(images: Tensor, top: Tensor, left: Tensor, flip: Tensor) -> Tensor:
    """Pad by `PADDING` black pixels, cut image i back to its size at (top[i], left[i]), mirror it where flip[i]."""
    n, _, height, width = images.shape
    padded = F.pad(images, (PADDING,) * 4)
    rows = top[:, None] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(n, -1)
    columns = left[:, None] + torch.where(flip[:, None], width - 1 - columns, columns)
    sample = torch.arange(n, device=images.device)[:, None, None]
    # Index arrays around the channel slice put the channels last: (n, height, width, 3).
    return padded[sample, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def inputs(
    images: Tensor, crops: Tensor | None = None, *, size: int, mean: Tensor, std: Tensor, layout: torch.memory_format
) -> Tensor:
    """What the network takes of raw images: resized, cropped and flipped where asked for, normalised."""
    large = resize(images, size)
    if crops is not None:
        top, left, flip = crops
        large = crop_and_flip(large, top, left, flip.bool())
    return ((large / 255 - mean) / std).contiguous(memory_format=layout)


def _with_strides_of(weight: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with its weight's strides where they differ in dimensions of size one alone.

    Operations on lists of tensors run as one kernel only if the strides agree to the letter.
    """
    pairs = zip(weight.stride(), gradient.stride(), weight.shape, strict=True)
    alike = all(mine == other or size == 1 for mine, other, size in pairs)
    return gradient.as_strided(weight.shape, weight.stride()) if alike else gradient


def _freeze(built: Built, variant: Variant) -> list[nn.Module]:
    if variant.frozen is None:
        return []
    if variant.frozen >= len(built.stages):
        raise ValueError(f"{variant.name} has {len(built.stages) - 1} stages, cannot freeze {variant.frozen}")
    frozen = [module for stage in built.stages[: variant.frozen + 1] for module in stage]
    for module in frozen:
        module.requires_grad_(False)
    return frozen
