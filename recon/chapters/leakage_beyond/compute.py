"""Chapter 16: noise on the gradient, batches, other activations; the fourth question is in `threat_models.py`.

The run's seed draws the images of the last question only: those of the others are the paper's victims.
"""

from __future__ import annotations

import torch
from torch import Tensor

from recon.attacks.fully_connected import features_from_fully_connected
from recon.attacks.gradient_matching import cosine_tv_authors
from recon.attacks.rgap import rgap
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.leakage_beyond.metrics import Activations, Batches, Metrics, Noise, TwoImages
from recon.chapters.leakage_beyond.sizes import Sizes
from recon.chapters.leakage_beyond.threat_models import SHOWN, threat_models
from recon.chapters.leakage_common import Attacked, Victims, pixels
from recon.nets.conv import SEED, ConvNet
from recon.released import Gradient
from recon.scoring.metrics import mse, psnr


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Four questions, one after the other."""
    found = Victims.of(context.pool)
    attacked = Attacked.of(sizes.network, context.pool)
    arrays = {"truth": pixels(found.x)}
    noisy = noise(attacked, found, sizes)
    mixed, mixtures = batches(attacked, context, sizes)
    activated, by_activation = activations(attacked, found, sizes, context)
    threats, threatened = threat_models(context, sizes)
    metrics = Metrics(network=sizes.network, noise=noisy, batches=mixed, activations=activated, threat_models=threats)
    return Outcome(metrics, arrays | mixtures | by_activation | threatened)


def noise(attacked: Attacked, found: Victims, sizes: Sizes) -> Noise:
    """PSNR (peak 1) of R-GAP, and of eq. (4)'s features, against N(0, σ²) on every gradient entry."""
    network, theta = attacked.network, attacked.theta
    features = features_from_fully_connected(Gradient.of(network, theta, found.x, found.labels))
    by_rgap, by_features = [], []
    for sigma in sizes.noise:
        image_rows, feature_rows = [], []
        for draw in range(sizes.draws):
            own = torch.Generator().manual_seed(draw)
            gradient = Gradient.of(network, theta, found.x, found.labels, sigma, own)
            x = torch.cat([rgap(victim, check=False) for victim in gradient.split()])
            image_rows += psnr(mse(x, found.x)).tolist()
            noisy = features_from_fully_connected(gradient, check=False)
            feature_rows += psnr(mse(noisy, features), peak=2.0).tolist()
        by_rgap.append(image_rows)
        by_features.append(feature_rows)
    grey = psnr(mse(torch.zeros_like(found.x), found.x)).mean().item()
    return Noise(sigma=list(sizes.noise), rgap=by_rgap, features=by_features, grey=grey)


def batches(attacked: Attacked, context: Context, sizes: Sizes) -> tuple[Batches, Tensors]:
    """Eq. (4) on batches: each row k of the layer gives its own mixture Σ_i w_ki x_i, w_ki = ∂ℓ_i/∂b_k / Σ_i ∂ℓ_i/∂b_k.

    And R-GAP on the mean gradient of two images, of different and of the same label: MSE to the nearer of the two.
    """
    found = Victims.of_each_class(context.pool, max(sizes.batches))
    arrays = {"batch truth": pixels(found.x)}
    errors, mixture_errors, own = [], [], []
    for size in sizes.batches:
        x, labels = found.x[:size], found.labels[:size]
        recovered, shares = mixtures(x, labels)
        mixture_errors.append((recovered - shares @ x.flatten(1)).abs().max().item())
        images = recovered.view(-1, *x.shape[1:])
        errors.append(mse(images, x[: len(images)]).mean().item())
        own.append((shares.diagonal().abs() / shares.abs().sum(1)).mean().item())
        arrays[f"batch {size}"] = pixels(images)
    pair = found.x[:2]
    table = Batches(
        sizes=list(sizes.batches),
        mse_to_own_image=errors,
        share_of_own=own,
        mixture_error=mixture_errors,
        rgap_mse=TwoImages(
            different_labels=nearer(attacked, pair, found.labels[:2]),
            same_label=nearer(attacked, pair, found.labels[:1].expand(2)),
        ),
        grey_mse=mse(torch.zeros_like(pair), pair).min().item(),
    )
    return table, arrays


def mixtures(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """What eq. (4) gives at the rows of the first labels of a batch x (n, c, h, w), (rows, d), on a net that is one
    fully connected layer; and the shares w_ki of the images in it, (rows, n)."""
    network = ConvNet(())
    theta = network.init(torch.Generator().manual_seed(SEED), torch.float64)
    weight, bias = network.last
    each = network.gradients(theta, x, labels)[bias]  # ∂ℓ_i/∂b (n, classes)
    mixed = Gradient.averaged(network, theta, x, labels).gradients
    rows = labels[:SHOWN]  # ∂ℓ_i/∂b_k is negative for k = y_i only: the row of a label is mostly its image's
    return mixed[weight][0][rows] / mixed[bias][0][rows, None], (each / each.sum(0))[:, rows].T


def nearer(attacked: Attacked, x: Tensor, labels: Tensor) -> float:
    """Mean squared error of R-GAP on the mean gradient of two images, to the nearer one."""
    gradient = Gradient.averaged(attacked.network, attacked.theta, x, labels)
    return mse(rgap(gradient, check=False).expand(2, -1, -1, -1), x).min().item()


def activations(attacked: Attacked, found: Victims, sizes: Sizes, context: Context) -> tuple[Activations, Tensors]:
    """The same layers with Tanh, LeakyReLU and ReLU: R-GAP where it is defined, gradient matching for all."""
    images = {}
    for name in ("tanh", "leaky_relu", "relu"):
        network = attacked.network.with_activation(name)
        gradient = Gradient.of(network, attacked.theta, found.x, found.labels)
        if name != "relu":
            images[f"{name}, R-GAP"] = torch.cat([rgap(victim) for victim in gradient.split()])
        checkpoint = context.checkpoints.at(f"activation-{name}")
        single = gradient.to(torch.float32)
        matched = cosine_tv_authors(single, SEED, sizes.match_steps, checkpoint)
        images[f"{name}, matching"] = matched.x_hat.view_as(found.x)
    errors = {key: mse(x.double(), found.x).mean().item() for key, x in images.items()}
    table = Activations(
        tanh_rgap=errors["tanh, R-GAP"],
        tanh_matching=errors["tanh, matching"],
        leaky_relu_rgap=errors["leaky_relu, R-GAP"],
        leaky_relu_matching=errors["leaky_relu, matching"],
        relu_matching=errors["relu, matching"],
    )
    return table, {f"activation {key}": pixels(x) for key, x in images.items()}
