"""Reconstructions that a repository keeps: 8 bits a pixel, each between its own least and greatest value.

NCC and SSIM of stretched images, by which they are scored, see the rounding alone: at most half of 1/255 of a
reconstruction's range in every pixel.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from recon.store.tensors import load_tensors, save_tensors

NAME, LEVELS = "x_hat.safetensors", 255
#: rows of the data set that say what it was attacked for, where a result has them
INDEX = ("train_index", "heldout_index")


def keep_reconstructions(arrays: Mapping[str, Tensor], folder: Path) -> Path | None:
    """Write x_hat (…, d) of a result, and which images it is of, to `folder`; None where there is no x_hat."""
    if "x_hat" not in arrays:
        return None
    x = arrays["x_hat"].float()
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    levels = ((x - low) / (high - low).clamp_min(1e-12) * LEVELS).round().to(torch.uint8)
    index = {name: arrays[name] for name in INDEX if name in arrays}
    save_tensors({"levels": levels, "low": low, "high": high, **index}, folder / NAME)
    return folder / NAME


def kept_reconstructions(folder: Path) -> tuple[Tensor, dict[str, Tensor]]:
    """x_hat (…, d) that is kept in `folder`, and the rows of its images; ReconError where it is missing or damaged."""
    found = load_tensors(folder / NAME)
    levels, low, high = (found.pop(name) for name in ("levels", "low", "high"))
    return low + levels / LEVELS * (high - low), found
