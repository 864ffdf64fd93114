"""Lets torchvision's CUDA build, the only one on PyPI, be imported next to a torch without CUDA.

Two operators are declared without a body, which is all that its import asks for. torch-uncertainty imports torchvision
for pictures; none of its calibration metrics uses it.
"""

import torch

for name in ("nms", "qnms"):
    torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
