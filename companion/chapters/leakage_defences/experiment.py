"""Appendix D: noise in units of differential privacy, and whether noise lowers c(M)."""

import math
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vjp

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import PRIOR, TABLE_1, VICTIMS, Victims, initial
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.analysis.identifiability import posterior_variance, rank_deficiency, security_metric
from recon.attacks import by_rgap
from recon.attacks.batches import BatchSystem
from recon.attacks.from_gradients import RGAPSettings
from recon.attacks.gauss_newton import Normal, Solved, gauss_newton
from recon.attacks.rgap import layer_by_layer
from recon.errors import ReconError
from recon.images.pool import ImagePool
from recon.nets.conv import Conv, ConvNet
from recon.optim.rng import named
from recon.released import Gradient
from recon.scoring.metrics import mse


class Metrics(Record):
    """noise: by network · grey: error of a grey image, by network, for each image.

    noise: One network at one noise multiplier z. mse: of the most probable image, for each image ·
    predicted: mean posterior variance of its entries, computed by the adversary without the truth ·
    rgap: error of R-GAP, None where the network has no convolution. deficiency: Σ of the layers'
    rank deficiencies, weighted: c(M), at multipliers z.
    """


SMALL = ("one convolution", "fully connected")


@dataclass(frozen=True, kw_only=True)
class AttackSizes:
    """
    Attributes:
        networks: of Table 1, or `SMALL` on images averaged down to 16 × 16.
        images: attacked, of all classes.
        table_images: attacked on networks of Table 1, where one takes minutes.
        noise: multipliers z, N(0, z² C²) on every entry of a gradient that is clipped to the norm
            C.
    """

    networks: tuple[str, ...] = SMALL
    images: int = 4
    table_images: int = 4
    noise: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)

    def victims(self, name: str, pool: ImagePool) -> Victims:
        """The images whose gradients by a network are attacked, as large as it wants them."""
        count = self.images if name in SMALL else self.table_images
        victims = Victims.of_all_classes(pool, count)
        return replace(victims, x=F.avg_pool2d(victims.x, 32 // network_of(name).shape[1]))


SIZES = {
    "smoke": AttackSizes(images=1, noise=(1e-2, 1e-1, 1.0)),
    "laptop": AttackSizes(images=2),
    "paper": AttackSizes(networks=(*SMALL, "CNN2 V1", "CNN3 V2"), images=20),
}


def network_of(name: str) -> ConvNet:
    """By the name in `AttackSizes`."""
    if name in TABLE_1:
        return TABLE_1[name]
    return ConvNet((Conv(3, 6),) if name == SMALL[0] else (), shape=(3, 16, 16))


UNDAMPED = 1e-9  # of the mean diagonal: the prior keeps the system solvable
GAIN = 1e-8  # it stops once a step lowers the energy by less than this share
DEFICIENT = ("CNN2 V2", "CNN3 V2")  # whose c(M) is computed, at these multipliers z
DEFICIENT_NOISE = (0.0, 0.01, 1.0)


def compute(sizes: AttackSizes, context: Context) -> Outcome[Metrics]:
    """Two questions, each image by itself."""
    units = [f"{name}--{z:g}" for name in sizes.networks for z in sizes.noise]
    noise: dict[str, list[Record]] = {name: [] for name in sizes.networks}
    for label, row in context.sweep(partial(noise_unit, sizes, context), units, "noise").items():
        noise[label.split("--")[0]].append(unpacked(row))
    metrics = Metrics(
        noise=noise,
        grey={name: sizes.victims(name, context.pool).grey for name in sizes.networks},
        deficiency=[deficiency(name, context) for name in DEFICIENT],
    )
    return Outcome(metrics, {})


def released(name: str, z: str, victims: Victims, context: Context) -> list[tuple[Gradient, float]]:
    """The noisy gradient of every image at multiplier z, and σ of its noise. C is each gradient's
    own norm, so that clipping changes nothing: the best case for the adversary.
    """
    network = network_of(name)
    x = victims.x
    theta = initial(network)
    sent = []
    for k in range(len(x)):
        clean = Gradient.each(network, theta, x[k : k + 1], victims.labels[k : k + 1])
        sigma = float(z) * math.sqrt(sum(float(g.square().sum()) for g in clean.gradients.values()))
        generator = named(context.seed, f"defences.noise {z}", k)
        noisy = {
            key: g + sigma * torch.randn(g.shape, generator=generator, dtype=g.dtype)
            for key, g in clean.gradients.items()
        }
        sent.append((replace(clean, gradients=noisy), sigma))
    return sent


@dataclass(frozen=True)
class NoisySystem:
    """Under noise: what the gradient of one image says of it, by Gauss–Newton on all its entries.

    With N(0, σ²) on every entry of the gradient g and x ~ N(0, v I), v = `PRIOR`, the image of
    maximum posterior probability minimises

        ‖g(x) − g‖²/σ² + ‖x‖²/v,

    and is known up to (JᵀJ/σ² + I/v)⁻¹, J = ∂(all gradients)/∂x, of which
    `recon.analysis.identifiability` has the diagonal. It solves (g(x)/σ, x/√v) = (g/σ, 0), in the
    sense of least squares.

    Attributes:
        of: all entries of one noisy gradient.
        sigma: of N(0, σ²) on every entry.
    """

    of: BatchSystem
    sigma: float

    @property
    def start(self) -> Tensor:
        """A grey image, (c·h·w,)."""
        return torch.zeros(math.prod(self.of.network.shape), dtype=torch.float64)

    @property
    def target(self) -> Tensor:
        """(p + c·h·w,)."""
        return torch.cat([self.of.target / self.sigma, self.start])

    def __call__(self, x: Tensor) -> Tensor:
        """(p + c·h·w,)."""
        return torch.cat([self.of(x) / self.sigma, math.sqrt(1 / PRIOR) * x])

    def linear(self, x: Tensor) -> Normal:
        """By JᵀJ/σ² + I/v, (c·h·w, c·h·w)."""
        gram = self.of.gram(x) / self.sigma**2
        gram.diagonal().add_(1 / PRIOR)
        _, pull, *_ = vjp(self, x)
        return Normal(gram, lambda residual: pull(residual)[0])


def map_estimate(gradient: Gradient, sigma: float, steps: int = 15) -> Solved:
    """The image of maximum posterior probability (c·h·w,), by Gauss–Newton on `NoisySystem` from
    grey. ReconError unless σ is positive.
    """
    if not sigma > 0:
        raise ReconError(f"noise must be positive, and {sigma} was given")
    system = NoisySystem(BatchSystem.of(gradient, gradient.labels), sigma)
    return gauss_newton(system, steps=steps, tol=0.0, damping=UNDAMPED, gain=GAIN)


def noise_unit(sizes: AttackSizes, context: Context, unit: str) -> Tensors:
    """One network at one z against the truth: most probable images, what the adversary expects of
    them, and R-GAP's.
    """
    name, z = unit.split("--")
    victims = sizes.victims(name, context.pool)
    guesses = []
    predicted = []
    by_layers = []
    for sent, sigma in released(name, z, victims, context):
        best = map_estimate(sent, sigma).x
        guesses.append(best.view(sent.network.shape))
        predicted.append(posterior_variance(sent, best, sigma, PRIOR).mean().item())
        if sent.network.depth:
            by_layers.append(by_rgap(sent, sent.network.shape, RGAPSettings(noisy=True)).images[0])
    row = Record(
        z=float(z),
        mse=mse(torch.stack(guesses), victims.x).tolist(),
        predicted=predicted,
        rgap=mse(torch.stack(by_layers), victims.x).tolist() if by_layers else None,
    )
    return packed(row)


def deficiency(name: str, context: Context) -> Record:
    """c(M) of the systems that an adversary sets up from the noisy gradient of one image, layer by
    layer as R-GAP does: features and δ of every layer come from it.
    """
    victims = Victims.of(context.pool, VICTIMS[:1])
    c = []
    for z in DEFICIENT_NOISE:
        [(sent, _)] = released(name, str(z), victims, context)
        layers = layer_by_layer(sent, check=False)
        ranks = [rank_deficiency(layer.system) for layer in layers]
        c.append(security_metric(ranks[::-1]))
    return Record(network=name, z=list(DEFICIENT_NOISE), c=c)
