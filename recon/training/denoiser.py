"""A small U-Net that takes noise off photographs, the prior of a blind separation: photographs
against their mixtures.

What stands in the way of one image x in a mixture is a sum of many others, which is nearly Gaussian
and has their spectrum. So the denoiser learns to find x in

    z = (x + τ n) / rms(x + τ n),    n = Σ_k g_k x_k scaled to unit mean square,  g_k ~ N(0, 1),

for public images x_k and τ drawn evenly in its logarithm. It minimises (1 + 1/τ²) ‖D(z) − x‖²,
which is of one size for all τ.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from recon.errors import ReconError
from recon.nets.module import default_start
from recon.nets.network import Shape
from recon.optim.descent import Adam, cosine
from recon.optim.loop import Checkpoint, LoopSettings, iterate
from recon.optim.tree import State


class Denoiser(nn.Module):
    """x̂ = D(z) for images (n, c, h, w): two convolutions at full size, two at half and two at a
    quarter of it, and back up, each size added to what comes from below (Ronneberger et al. 2015).
    channels: at full size; twice and three times as many below · generator: of the start (PyTorch's
    default). ReconError for sides that are no multiples of four.
    """

    def __init__(self, shape: Shape, channels: int, generator: torch.Generator) -> None:
        super().__init__()
        if len(shape) != 3 or shape[1] % 4 or shape[2] % 4:
            raise ReconError(
                f"the denoiser takes images whose sides are multiples of four, not {tuple(shape)}"
            )
        full, half, quarter = channels, 2 * channels, 3 * channels
        self.down = nn.ModuleList(
            [_convolutions(shape[0], full), _halved(full, half), _halved(half, quarter)]
        )
        self.up = nn.ModuleList([_doubled(quarter, half), _doubled(half, full)])
        self.after = nn.ModuleList(
            [nn.Sequential(nn.ReLU(), _convolution(size, size)) for size in (half, full)]
        )
        self.last = nn.Conv2d(full, shape[0], 3, padding=1)
        default_start(self, generator)

    def forward(self, z: Tensor) -> Tensor:
        """(n, c, h, w) -> the same."""
        levels = []
        for level in self.down:
            z = level(z)
            levels.append(z)
        for up, after, skip in zip(self.up, self.after, levels[-2::-1], strict=True):
            z = after(up(z) + skip)
        return self.last(z)


def _convolution(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU())


def _convolutions(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(_convolution(inputs, outputs), _convolution(outputs, outputs))


def _halved(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 2, 2), nn.ReLU(), _convolutions(outputs, outputs)
    )


def _doubled(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, 4 * outputs, 1), nn.PixelShuffle(2))


@dataclass(frozen=True)
class DenoiserSettings:
    """
    Attributes:
        channels: of the network at full size.
        steps of Adam, each on `batch` images.
        step_size: of the first, falling along half a cosine.
        noise: least and greatest τ.
        bfloat16: whether convolutions are computed in it.
    """

    channels: int = 32
    steps: int = 1500
    batch: int = 64
    step_size: float = 1e-3
    noise: tuple[float, float] = (0.3, 3.5)
    bfloat16: bool = False


def unit(x: Tensor) -> Tensor:
    """Images (n, …), each scaled to unit mean square; zero stays zero."""
    size = x.flatten(1).square().mean(1).sqrt().clamp_min(1e-12)
    return x / size.view(-1, *[1] * (x.dim() - 1))


def mixtures(public: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """`count` Gaussian mixtures of images (k, c, h, w), of unit mean square."""
    weights = torch.randn(count, len(public), generator=generator).to(public)
    return unit((weights @ public.flatten(1)).unflatten(1, public.shape[1:]))


def noisy(x: Tensor, tau: Tensor, noise: Tensor) -> Tensor:
    """z (n, c, h, w) of images x, noise levels τ (n,) and noise n."""
    return unit(x + tau.view(-1, 1, 1, 1) * noise)


def train_denoiser(
    public: Tensor,
    settings: DenoiserSettings,
    generator: torch.Generator,
    checkpoint: Checkpoint | None = None,
) -> Denoiser:
    """The denoiser, trained on public images (k, c, h, w), whitened as appendix B's attack does, of
    unit mean square. Every step draws images, sides, signs, τ and noise from a generator of its
    own: an interrupted run goes on to the same answer. ReconError for fewer than two images.
    """
    if len(public) < 2:
        raise ReconError("a prior needs at least two public images")
    network = Denoiser(tuple(public.shape[1:]), settings.channels, generator).to(public.device)
    first_seed = int(torch.randint(2**31, (), generator=generator))
    adam = Adam(settings.step_size, (0.9, 0.999), 1e-8)

    def init() -> State:
        theta = parameters_to_vector(network.parameters()).detach()
        return adam.init(theta) | {"accepted": {"energy": theta.new_full((1,), torch.inf)}}

    def step(state: State) -> State:
        taken = int(state["taken"])
        x, tau, noise = _batch(public, settings, torch.Generator().manual_seed(first_seed + taken))
        vector_to_parameters(state["x"], network.parameters())
        with torch.autocast(public.device.type, torch.bfloat16, enabled=settings.bfloat16):
            x_hat = network(noisy(x, tau, noise))
        loss = ((x_hat.float() - x).square().flatten(1).mean(1) * (1 + tau.pow(-2))).mean()
        parts = torch.autograd.grad(loss, list(network.parameters()))
        gradient = torch.cat([part.flatten() for part in parts])
        moved = adam.step(state, loss, gradient, cosine(taken, settings.steps, 0.01))
        return moved | {"accepted": {"energy": loss.detach()[None]}}

    loop = LoopSettings(settings.steps, device=public.device, label="denoiser")
    state, _ = iterate(init, step, loop, checkpoint)
    vector_to_parameters(state["x"], network.parameters())
    return network.requires_grad_(False)


def _batch(
    public: Tensor, settings: DenoiserSettings, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """x (b, c, h, w), mirrored or not and of either sign, τ (b,) and noise."""
    rows = torch.randint(len(public), (settings.batch,), generator=generator)
    mirrored, negative, level = torch.rand(3, settings.batch, generator=generator)
    x = public[rows]
    x = torch.where((mirrored < 0.5).to(x.device).view(-1, 1, 1, 1), x.flip(-1), x)
    x = x * torch.where(negative < 0.5, 1.0, -1.0).to(x).view(-1, 1, 1, 1)
    least, greatest = map(math.log, settings.noise)
    tau = torch.exp(least + (greatest - least) * level).to(x)
    return x, tau, mixtures(public, settings.batch, generator)
