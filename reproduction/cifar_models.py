"""Builds timm's image classifiers for the CIFAR-100 preset; the only file that imports timm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from truecal.core.extras import require


@dataclass(frozen=True)
class Built:
    """A classifier that returns float32 logits, its parts from input to output, and its input normalisation."""

    model: nn.Module
    stages: Sequence[Sequence[nn.Module]]  # stages[0] is the stem; the head is in none of them
    mean: tuple[float, ...]
    std: tuple[float, ...]


class FullPrecisionLinear(nn.Linear):
    """A linear layer that ignores autocast: logits rounded to bfloat16 would tie confidences together."""

    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            return nn.functional.linear(input.float(), self.weight, self.bias)


def build(name: str, n_classes: int, *, pretrained: bool, weights: Path | None) -> Built:
    """The timm model ``name`` with a new head of ``n_classes``.

    ``pretrained`` takes timm's own weights, from ``weights/<name>.pth`` when a folder is given (a state dict under
    timm's names, whose ImageNet head is dropped) and from timm's hub otherwise.
    """
    hub = pretrained and weights is None
    model = require("timm", "reproduction-gpu").create_model(name, pretrained=hub, num_classes=n_classes)
    config = model.pretrained_cfg
    if pretrained and weights is not None:
        _load_without_head(model, weights / f"{name}.pth", config["classifier"])
    _use_full_precision_head(model, config["classifier"])
    return Built(model, _stages(model, name), tuple(config["mean"]), tuple(config["std"]))


def _load_without_head(model: nn.Module, path: Path, head: str) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a state dict under timm's names")
    state = torch.load(path, map_location="cpu", weights_only=True)
    kept = {key: value for key, value in state.items() if not key.startswith(f"{head}.")}
    report = model.load_state_dict(kept, strict=False)
    missing = [key for key in report.missing_keys if not key.startswith(f"{head}.")]
    if missing or report.unexpected_keys:
        raise ValueError(f"{path}: not this model's weights: missing {missing}, unexpected {report.unexpected_keys}")


def _use_full_precision_head(model: nn.Module, head: str) -> None:
    old = model.get_submodule(head)
    if not isinstance(old, nn.Linear):
        raise TypeError(f"expected {head!r} to be a linear layer, found {type(old).__name__}")
    new = FullPrecisionLinear(old.in_features, old.out_features, bias=old.bias is not None)
    new.load_state_dict(old.state_dict())
    parent, _, leaf = head.rpartition(".")
    setattr(model.get_submodule(parent), leaf, new)


def _stages(model: Any, name: str) -> list[list[nn.Module]]:
    if hasattr(model, "blocks"):
        return [[model.conv_stem, model.bn1], *([block] for block in model.blocks)]
    if hasattr(model, "layer1"):
        return [[model.conv1, model.bn1], [model.layer1], [model.layer2], [model.layer3], [model.layer4]]
    raise ValueError(f"{name}: do not know this model's stages; expected an EfficientNet, MobileNet or ResNet")
