"""Let torchvision be imported beside a PyTorch without CUDA.

timm imports torchvision for its data sets. torchvision's wheel has kernels for CUDA, which cannot be loaded here; then
its import fails where it describes the shapes of two of them, of object detection, which no model here calls. With
the signatures of these operators declared, the import goes through.
"""

import torch

for _name in ("nms", "qnms"):
    torch.library.define(f"torchvision::{_name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
