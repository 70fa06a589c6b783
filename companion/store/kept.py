"""Arrays that the book keeps of a run at the paper's size: what figures show, how descents began,
released weights, and reconstructions in 8 bits.
"""

import math
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.utils import make_grid

from companion.store.results import FIGURE, TRACE
from recon.errors import one_reason
from recon.store.tensors import load_tensors, save_tensors

RECONSTRUCTIONS = "x_hat.safetensors"
LEVELS = 255
KEPT = "kept.safetensors"
RELEASED = "released."  # weights, and what an attack says of them
TO_KEEP = (FIGURE, TRACE, RELEASED)


def keep_arrays(arrays: Mapping[str, Tensor], folder: Path) -> None:
    """Write the arrays whose names begin with one of `TO_KEEP` to `folder`: images as 8 bits, all
    else as it is.
    """
    chosen = {name: array for name, array in arrays.items() if name.startswith(TO_KEEP)}
    if chosen:
        save_tensors(chosen, folder / KEPT)


def kept_arrays(folder: Path) -> dict[str, Tensor]:
    """What `keep_arrays` wrote; nothing where there is nothing.  ReconError for a damaged file."""
    return load_tensors(folder / KEPT) if (folder / KEPT).is_file() else {}


def keep_reconstructions(arrays: Mapping[str, Tensor], folder: Path) -> None:
    """Write x_hat (…, d) of a result to `folder`, where there is one.

    In 8 bits a pixel, between its least and greatest value: NCC and SSIM of stretched images, by
    which it is scored, see the rounding alone, at most half of 1/255 of a reconstruction's range in
    every pixel. Square images in colour are packed without further loss, as one picture.
    """
    if "x_hat" not in arrays:
        return
    x = arrays["x_hat"].float()
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    levels = ((x - low) / (high - low).clamp_min(1e-12) * LEVELS).round().to(torch.uint8)
    side = math.isqrt(x.shape[-1] // 3)
    what = {"levels": levels}
    if 3 * side**2 == x.shape[-1]:
        what = {"webp": _packed(levels.reshape(-1, 3, side, side))}
    save_tensors({**what, "low": low, "high": high}, folder / RECONSTRUCTIONS)


def _packed(levels: Tensor) -> Tensor:
    """The bytes of one WebP picture, lossless, of all images (k, 3, s, s) uint8, in a square."""
    across, packed = math.ceil(len(levels) ** 0.5), BytesIO()
    sheet = make_grid(levels, across, padding=0).permute(1, 2, 0)
    Image.fromarray(sheet.numpy()).save(packed, "WEBP", lossless=True, quality=100, method=6)
    return torch.frombuffer(bytearray(packed.getvalue()), dtype=torch.uint8)


def _unpacked(packed: Tensor, k: int) -> Tensor:
    """The k images (k, 3 s²) uint8 of `_packed`."""
    with Image.open(BytesIO(packed.numpy().tobytes())) as picture:
        sheet = torch.from_numpy(np.array(picture.convert("RGB")))
    side = sheet.shape[1] // math.ceil(k**0.5)
    return sheet.unfold(0, side, side).unfold(1, side, side).flatten(0, 1).flatten(1)[:k]


def kept_reconstructions(folder: Path) -> Tensor:
    """x_hat (…, d) that is kept in `folder`; ReconError where it is missing or damaged."""
    found = load_tensors(folder / RECONSTRUCTIONS)
    with one_reason(f"{folder / RECONSTRUCTIONS} is damaged"):
        low, high = found["low"], found["high"]
        if "webp" in found:
            found["levels"] = _unpacked(found["webp"], low.numel()).unflatten(0, low.shape[:-1])
    return low + found["levels"] / LEVELS * (high - low)
