"""What an audit reads: the weights of a reader's network, and images in folders or arrays."""

from __future__ import annotations

import re
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from recon.errors import ReconError
from recon.nets.mlp import MLP, Params
from recon.store.results import load_tensors

MIN_IMAGES = 6  # with 5 of each even a perfect attack has p = 9/252 in `recon.auditing.scoring.score`
SUFFIXES = {".png", ".jpg", ".jpeg"}
NOT_AN_NPZ = (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error)  # an .npy has no files
MEANS = ("image", "channel", "none")


# ------------------------------------------------------------------------------------------------------- weights


def load_weights(path: Path, arch: str) -> tuple[MLP, Tensor, list[str]]:
    """The network, θ* (p,) in float32, and which tensor of the file is which: ["w1 = 0.weight", …].

    path: safetensors with this package's names (`w1`, `b1`, …) or with `STEM.weight`, `STEM.bias` as in a state dict.
    Layer l of `arch` (widths joined by "-") takes the first free weight of its shape, stems in natural order; biases
    are optional.  ReconError for a file, a name, a shape or a number that does not fit, and for tensors left over.
    """
    widths = parse_arch(arch)
    if not path.is_file():
        raise ReconError(f"there is no weights file {path}")
    stems: dict[str, dict[str, tuple[str, Tensor]]] = {}
    foreign = []
    for name, tensor in load_tensors(path).items():
        own = re.fullmatch(r"([wb])([0-9]+)", name)
        stem, kind = (own[2], {"w": "weight", "b": "bias"}[own[1]]) if own else name.rpartition(".")[::2]
        if kind not in ("weight", "bias") or (kind == "weight" and tensor.dim() != 2):
            foreign.append(name)
            continue
        if not tensor.is_floating_point() or not torch.isfinite(tensor).all():
            raise ReconError(f"tensor '{name}' of {path} holds numbers that are not finite floats")
        stems.setdefault(stem, {})[kind] = (name, tensor.float())
    theta, mapping, has_bias = _assign(stems, widths, arch, path)
    left = [name for parts in stems.values() for name, _ in parts.values()] + foreign
    if left:
        raise ReconError(
            f"{path} holds tensors that {arch} has no place for: {', '.join(sorted(left)[:6])} "
            "(only fully connected ReLU networks are audited: no convolutions, no batch norm)"
        )
    network = MLP(widths, has_bias)
    return network, network.flatten(theta), mapping


def parse_arch(arch: str) -> tuple[int, ...]:
    """ "3072-1000-1000-1" -> (3072, 1000, 1000, 1); ReconError unless there is a hidden layer and one output."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}(-[1-9][0-9]{0,8}){2,}", arch):
        raise ReconError(f"the architecture must be widths like 3072-1000-1000-1, with a hidden layer, not '{arch}'")
    widths = tuple(int(width) for width in arch.split("-"))
    if widths[-1] != 1:
        raise ReconError(f"only binary classifiers with one logit are audited, and {arch} has {widths[-1]} outputs")
    return widths


def _assign(
    stems: dict[str, dict[str, tuple[str, Tensor]]], widths: tuple[int, ...], arch: str, path: Path
) -> tuple[Params, list[str], tuple[bool, ...]]:
    """Parameters by the package's names, the mapping in words, which layers have a bias; takes them out of `stems`."""
    held = ", ".join(f"{n} {tuple(t.shape)}" for s in sorted(stems, key=_natural) for n, t in stems[s].values())
    theta: Params = {}
    mapping, has_bias = [], []
    for layer, (fan_in, fan_out) in enumerate(zip(widths, widths[1:], strict=False), start=1):
        fits = [s for s in stems if "weight" in stems[s] and stems[s]["weight"][1].shape == (fan_out, fan_in)]
        if not fits:
            raise ReconError(
                f"{path} has no weight of shape ({fan_out}, {fan_in}) for layer {layer} of {arch}, "
                f"only {held[:300] or 'no weights at all'}"
            )
        parts = stems.pop(min(fits, key=_natural))
        for kind, name in (("weight", f"w{layer}"), ("bias", f"b{layer}")):
            if kind in parts:
                theta[name] = parts[kind][1]
                mapping.append(f"{name} = {parts[kind][0]}")
        has_bias.append("bias" in parts)
        if "bias" in parts and theta[f"b{layer}"].shape != (fan_out,):
            shape = tuple(theta[f"b{layer}"].shape)
            raise ReconError(f"the bias {parts['bias'][0]} of {path} has shape {shape}, and {arch} needs ({fan_out},)")
    return theta, mapping, tuple(has_bias)


def _natural(name: str) -> list[Any]:
    """Sorts layer.10 after layer.9; text and numbers alternate, so that like is compared with like."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]


# ---------------------------------------------------------------------------------------------------------- data


@dataclass(frozen=True)
class Images:
    """pixels: (n, C, H, W) uint8 · names: what the owner calls them, (n,)."""

    pixels: np.ndarray
    names: list[str]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def flat(self) -> Tensor:
        """(n, d) float32 in [0, 1], C H W order."""
        return torch.from_numpy(self.pixels).flatten(1).float() / 255

    def take(self, rows: list[int]) -> Images:
        """Some of them."""
        return Images(self.pixels[rows], [self.names[row] for row in rows])

    def picture(self, row: int) -> np.ndarray:
        """(H, W, C) uint8."""
        return self.pixels[row].transpose(1, 2, 0)


def load_images(data: Path, dim: int) -> tuple[Images, Images]:
    """(training images, held-out images) with `dim` numbers each, colour or grey.

    data: a folder with `train/` and `held_out/` (png, jpg, at any depth) or `train.npz` and `held_out.npz` (one uint8
    array each), or one .npz with arrays `train` and `held_out`.  ReconError for whatever is missing, unreadable, of
    another size, too few, or in both parts.
    """
    if not data.exists():
        raise ReconError(f"there is no data at {data}")
    train, held_out = (_load_part(data, part, dim) for part in ("train", "held_out"))
    if train.pixels.shape[1:] != held_out.pixels.shape[1:]:
        shapes = " and ".join(str(p.pixels.shape[1:]) for p in (train, held_out))
        raise ReconError(f"training and held-out images differ in shape (C, H, W): {shapes}")
    for name, part in (("training", train), ("held-out", held_out)):
        if len(part) < MIN_IMAGES:
            raise ReconError(
                f"there are only {len(part)} {name} images, and with fewer than {MIN_IMAGES} nothing is significant"
            )
    known = {image.tobytes(): name for image, name in zip(train.pixels, train.names, strict=True)}
    for image, name in zip(held_out.pixels, held_out.names, strict=True):
        if image.tobytes() in known:
            raise ReconError(
                f"{name} is the training image {known[image.tobytes()]}: held-out images must be ones that the "
                "network never saw"
            )
    return train, held_out


def _load_part(data: Path, part: str, dim: int) -> Images:
    if data.is_file():
        return _from_npz(data, part, part, dim)
    if (data / part).is_dir():
        return _from_folder(data / part, dim)
    if (data / f"{part}.npz").is_file():
        return _from_npz(data / f"{part}.npz", part, None, dim)
    both = sorted(data.glob("*.npz"))
    if len(both) == 1 and both[0].stem not in ("train", "held_out"):
        return _from_npz(both[0], part, part, dim)
    raise _missing(data, part)


def _missing(data: Path, part: str) -> ReconError:
    if part == "train":
        return ReconError(f"{data} has neither a folder train/ nor train.npz with the training images")
    return ReconError(
        f"{data} has no held-out images (held_out/, held_out.npz or an array held_out): without images that the "
        "network never saw, likeness by chance cannot be told from leakage"
    )


def _from_folder(folder: Path, dim: int) -> Images:
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not files:
        raise ReconError(f"there are no images (png, jpg) in {folder}")
    pixels = [_read_image(file, dim) for file in files]
    odd = next((file for file, p in zip(files, pixels, strict=True) if p.shape != pixels[0].shape), None)
    if odd is not None:
        raise ReconError(f"{odd} differs in height or width from {files[0]}")
    return Images(np.stack(pixels), [file.relative_to(folder.parent).as_posix() for file in files])


def _read_image(file: Path, dim: int) -> np.ndarray:
    """(C, H, W) uint8; in colour or grey, whichever has `dim` numbers."""
    try:
        with Image.open(file) as image:
            width, height = image.size
            channels, rest = divmod(dim, width * height)
            if rest or channels not in (1, 3):
                raise ReconError(f"{file} is {width} × {height}, which does not make {dim} inputs, grey or in colour")
            if image.mode.startswith(("I", "F")):
                raise ReconError(f"{file} has more than 8 bits a channel")
            pixels = np.asarray(image.convert("RGB" if channels == 3 else "L"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ReconError(f"the image {file} cannot be read: {error}") from error
    return pixels.reshape(height, width, channels).transpose(2, 0, 1)


def _from_npz(file: Path, part: str, key: str | None, dim: int) -> Images:
    """The array `key`, or the only one, of shape (N, H, W), (N, H, W, C) or (N, C, H, W)."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            if key is not None and key not in arrays.files:
                raise _missing(file, part) if part != "train" else ReconError(f"{file} has no array train")
            if key is None and len(arrays.files) != 1:
                raise ReconError(f"{file} must hold one array, not {len(arrays.files)}")
            array = arrays[key or arrays.files[0]]
    except NOT_AN_NPZ as error:
        raise ReconError(f"{file} cannot be read as an .npz of plain arrays: {error}") from error
    if array.dtype != np.uint8 or array.ndim not in (3, 4) or 0 in array.shape:
        raise ReconError(f"{file}: {part} must be uint8 of shape (N, H, W, C), not {array.dtype} {array.shape}")
    if array.ndim == 3:
        array = array[:, None]
    elif array.shape[3] in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    if array.shape[1] not in (1, 3) or array[0].size != dim:
        raise ReconError(f"{file}: images of shape {array.shape[1:]} do not make {dim} inputs, grey or in colour")
    return Images(np.ascontiguousarray(array), [f"{part}[{row}]" for row in range(len(array))])


def mean_image(train: Images, kind: str) -> Tensor:
    """What training subtracted from every image, (d,): the mean "image" of the training set, its mean colour
    ("channel"), or nothing ("none")."""
    if kind not in MEANS:
        raise ReconError(f"unknown mean '{kind}': choose one of {', '.join(MEANS)}")
    mean = train.flat.mean(0)
    if kind == "channel":
        by_channel = mean.unflatten(0, (train.pixels.shape[1], -1))
        mean = by_channel.mean(1, keepdim=True).expand_as(by_channel).flatten()
    return mean if kind != "none" else torch.zeros_like(mean)
