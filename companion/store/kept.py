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


def keep_reconstructions(arrays: Mapping[str, Tensor], folder: Path) -> Path | None:
    """Write x_hat (…, d) of a result, and which images it is of, to `folder`; None where there is
    no x_hat.

    In 8 bits a pixel, between its least and greatest value: NCC and SSIM of stretched images, by
    which it is scored, see the rounding alone, at most half of 1/255 of a reconstruction's range in
    every pixel. Square images in colour are packed without further loss, as one picture.
    """
    if "x_hat" not in arrays:
        return None
    x = arrays["x_hat"].float()
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    levels = ((x - low) / (high - low).clamp_min(1e-12) * LEVELS).round().to(torch.uint8)
    # rows of the data set that say what it was attacked for
    index = {name: arrays[name] for name in ("train_index", "heldout_index") if name in arrays}
    side = math.isqrt(x.shape[-1] // 3)
    what = (
        {"levels": levels}
        if 3 * side**2 != x.shape[-1]
        else {"webp": _packed(levels.reshape(-1, 3, side, side))}
    )
    save_tensors({**what, "low": low, "high": high, **index}, folder / RECONSTRUCTIONS)
    return folder / RECONSTRUCTIONS


def _packed(levels: Tensor) -> Tensor:
    """The bytes of one WebP picture, lossless, of all images (k, 3, s, s) uint8, in as many rows as
    columns.
    """
    across, packed = math.ceil(len(levels) ** 0.5), BytesIO()
    full = torch.cat([levels, levels.new_zeros(across**2 - len(levels), *levels.shape[1:])])
    sheet = full.unflatten(0, (across, across)).permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)
    Image.fromarray(sheet.numpy()).save(packed, "WEBP", lossless=True, quality=100, method=6)
    return torch.frombuffer(bytearray(packed.getvalue()), dtype=torch.uint8)


def _unpacked(packed: Tensor, k: int) -> Tensor:
    """The k images (k, 3 s²) uint8 of `_packed`."""
    with Image.open(BytesIO(packed.numpy().tobytes())) as picture:
        sheet = torch.from_numpy(np.array(picture.convert("RGB")))
    side = len(sheet) // math.ceil(k**0.5)
    return sheet.unfold(0, side, side).unfold(1, side, side).flatten(0, 1).flatten(1)[:k]


def kept_reconstructions(folder: Path) -> tuple[Tensor, dict[str, Tensor]]:
    """x_hat (…, d) that is kept in `folder`, and the rows of its images; ReconError where it is
    missing or damaged.
    """
    found = load_tensors(folder / RECONSTRUCTIONS)
    with one_reason(f"{folder / RECONSTRUCTIONS} is damaged"):
        low, high = found.pop("low"), found.pop("high")
        levels = found.pop("levels", None)
        if levels is None:
            levels = _unpacked(found.pop("webp"), low.numel()).unflatten(0, low.shape[:-1])
    return low + levels / LEVELS * (high - low), found
