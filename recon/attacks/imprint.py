"""A malicious server: a first layer made to be read (Fowl et al. 2022, "Robbing the Fed").

Row k of the layer measures the brightness of an image, z_k = mean(x) − e_k, with edges e_1 < … <
e_K, and every unit goes on with the same weights v. Then image i has the same δ_i = ⟨v,
∂ℓ_i/∂logits⟩ in all units that it activates, those with e_k below its brightness, and differences
of neighbouring rows of the mean gradient hold one bin each:

    ∇_{W_k} ℓ − ∇_{W_{k+1}} ℓ = (1/n) Σ_{i: e_k < mean(x_i) ≤ e_{k+1}} δ_i x_i,   the same of the bias without x_i.

An image that is alone in its bin is their ratio.
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import torch
import torch.nn.functional as F
from torch import Tensor

from recon.errors import ReconError
from recon.nets.network import Params

EMPTY = 1e-9  # of the largest difference of biases: bins with less hold nobody
CERTAIN = 1e-3  # relative; of what a candidate alone would send


def edges_of(public: Tensor, bins: int) -> Tensor:
    """K edges between which images are equally frequent, by a normal distribution fitted to the
    brightness of images `public` (m, d); the lowest is so low that every image lies above it.
    ReconError for fewer than two bins, and for public images that are all as bright.
    """
    brightness = public.double().mean(1)
    if bins < 2 or len(public) < 2 or not brightness.std() > 0:
        raise ReconError("bins need at least two edges, and public images of different brightness")
    fitted = NormalDist(float(brightness.mean()), float(brightness.std()))
    inner = [fitted.inv_cdf(k / bins) for k in range(1, bins)]
    edges = [fitted.mean - 20 * fitted.stdev, *inner]
    return public.new_tensor(edges)


@dataclass(frozen=True)
class Imprint:
    """The network that the server hands out: logits = V relu(W x − e) + c. ReconError unless the
    edges ascend.

    Attributes:
        edges (K,) ascending.
        v (classes,): every column of V · c (classes,).
    """

    edges: Tensor
    v: Tensor
    c: Tensor

    def __post_init__(self) -> None:
        if not bool((self.edges.diff() > 0).all()):
            raise ReconError("the edges of the bins must ascend")

    def theta(self, dim: int) -> Params:
        """Its parameters, for images (d,): "w1" (K, d), "b1" (K,), "w2" (classes, K), "b2"
        (classes,).
        """
        bins = len(self.edges)
        return {
            "w1": self.edges.new_full((bins, dim), 1 / dim),
            "b1": -self.edges,
            "w2": self.v[:, None].expand(-1, bins).clone(),
            "b2": self.c.clone(),
        }

    def mean_gradient(self, x: Tensor, labels: Tensor) -> Params:
        """What a client sends who trains on images x (n, d) with labels (n,), as the network tells
        it to.
        """
        theta = {name: value.requires_grad_() for name, value in self.theta(x.shape[1]).items()}
        hidden = F.relu(F.linear(x, theta["w1"], theta["b1"]))
        loss = F.cross_entropy(F.linear(hidden, theta["w2"], theta["b2"]), labels)
        return dict(zip(theta, torch.autograd.grad(loss, list(theta.values())), strict=True))

    def read(self, gradient: Params, n: int) -> ReadOut:
        """From the mean gradient of n images; sees nothing else."""
        weight, bias = gradient["w1"].double(), gradient["b1"].double()
        weight = weight - torch.cat([weight[1:], torch.zeros_like(weight[:1])])
        bias = bias - torch.cat([bias[1:], torch.zeros_like(bias[:1])])
        used = bias.abs() > EMPTY * bias.abs().max()
        images = weight[used] / bias[used, None]
        return ReadOut(images, self._alone(images, bias[used] * n))

    def _alone(self, images: Tensor, delta: Tensor) -> Tensor:
        """Whether δ is that of the image by itself, for one of the labels (r,). A mixture is one of
        a bin by chance only: δ is a real number, and every label gives one value.
        """
        brightness = images.mean(1)
        sums = F.relu(brightness[:, None] - self.edges.double()).sum(1)
        logits = sums[:, None] * self.v.double() + self.c.double()
        # ⟨v, p − e_y⟩ for every label y
        products = (logits.softmax(-1) @ self.v.double())[:, None] - self.v.double()
        return ((products - delta[:, None]).abs() <= CERTAIN * products.abs()).any(1)


@dataclass(frozen=True)
class ReadOut:
    """Of every bin that is not empty:

    Attributes:
        images (r, d).
        alone (r,): what the server holds to be one image, no mixture.
    """

    images: Tensor
    alone: Tensor
