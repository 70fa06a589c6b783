"""What training did to pixels before the network saw them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recon.auditing.images import Images
from recon.errors import ReconError

MEANS = ("image", "channel", "none")


@dataclass(frozen=True)
class Transform:
    """What training did to pixels: (x − mean) / std, or `function`.  mean, std: (C, H, W) or what broadcasts to it ·
    words: for the report."""

    words: str
    mean: Tensor
    std: Tensor
    function: Callable[[Tensor], Tensor] | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Inputs of the network (n, C, H, W) for pixels (n, C, H, W)."""
        if self.function is None:
            return (x - self.mean) / self.std
        try:
            found = self.function(x.clone())
        except Exception as error:  # a stranger's function
            raise ReconError(f"the transform fails on images of shape {tuple(x.shape)}: {error}") from error
        if not isinstance(found, Tensor) or found.shape != x.shape or not torch.isfinite(found).all():
            raise ReconError("the transform must return finite images of the shape that it is given")
        return found.float()

    def back(self, x: Tensor) -> Tensor:
        """Pixels of inputs; of a `function`, whose inverse nobody knows, the inputs themselves."""
        return x if self.function is not None else x * self.std + self.mean


def transform_of(given: Any, train: Images) -> Transform:
    """given: None for inputs as they are (bytes over 255) · "image", "channel", "none": training subtracted its mean
    image, its mean colour, or nothing · a pair (mean, std) · a function of (n, C, H, W)."""
    zero, one = torch.zeros(train.shape), torch.ones(1)
    if given is None:
        return Transform("nothing", zero, one)
    if isinstance(given, str):
        return Transform(WORDS.get(given, ""), mean_image(train, given).view(train.shape), one)
    if isinstance(given, tuple | list) and len(given) == 2:
        try:
            mean, std = (torch.as_tensor(each, dtype=torch.float32) for each in given)
            mean, std = (each.view(-1, 1, 1) if each.dim() < 2 else each for each in (mean, std))
            mean, std = mean.expand(train.shape), std.expand(train.shape)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ReconError(
                f"transform must be a pair (mean, std) for images of shape {train.shape}: {error}"
            ) from error
        if not (torch.isfinite(mean).all() and torch.isfinite(std).all() and (std > 0).all()):
            raise ReconError("transform must be a finite mean and a positive std")
        return Transform("mean and standard deviation as given", mean, std)
    if callable(given):
        return Transform("a function as given", zero, one, given)
    raise ReconError(f"transform must be one of {', '.join(MEANS)}, a pair (mean, std) or a function, not {given!r}")


WORDS = {
    "image": "the mean of the training images",
    "channel": "the mean colour of the training images",
    "none": "nothing",
}


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
