"""Gradient matching: DLG, CosineTV and Hybrid of Chen & Campbell (2022); see `recon.attacks.rgap`
for linear systems.

    DLG       min_x Σ_j ‖g_j(x) − g_j‖²
    CosineTV  min_x Σ_j D(g_j(x), g_j) + τ TV(x)
    Hybrid    min_x α Σ_{j≥i} D(g_j(x), g_j) + β TV(x) + γ ‖U_i x − V_i‖²     (16)

DLG (Zhu, Liu & Han 2019) goes by L-BFGS, CosineTV (Geiping et al. 2020, as the paper has it) by
Adam, Hybrid layer by layer, by Adam; D(u, v) = 1 − ⟨u, v⟩/(‖u‖ ‖v‖) (10), g_j the gradient of
parameter tensor j, TV the mean absolute difference of horizontal plus that of vertical neighbours.
Geiping et al. themselves take *one* cosine, D(g(x), g) with g all tensors as one vector, and other
steps: two choices, `whole` and `Descent`, that are here for both attacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.attacks.rgap import layer_by_layer
from recon.errors import ReconError
from recon.nets.conv import ConvNet, cross_entropy_direction
from recon.nets.gram import per_image_gradients
from recon.nets.module import ModuleNetwork
from recon.nets.network import LayerPass, Params, Shape
from recon.optim.descent import Adam
from recon.optim.loop import Checkpoint, Checkpoints
from recon.optim.tree import State, keep, unevaluated
from recon.released import Gradient

COSINE_STEPS = 4800
DLG_STEPS = 300


@dataclass(frozen=True)
class Alignment:
    """Of the gradients g_j(x) of B images with their targets g_j, tensor by tensor, (T, B): inner
    ⟨g_j(x), g_j⟩ · size ‖g_j(x)‖ · target ‖g_j‖.
    """

    inner: Tensor
    size: Tensor
    target: Tensor

    @staticmethod
    def of(layers: list[LayerPass], targets: Params) -> Alignment:
        """Of these layers, the fully connected one last. Its gradient δfᵀ is never formed: ⟨δfᵀ, G⟩
        = δᵀ G f and ‖δfᵀ‖ = ‖δ‖ ‖f‖.
        """
        *convolutions, last = layers
        matrix = targets[last.weight]
        others = per_image_gradients(convolutions)
        if last.bias is not None:
            others[last.bias] = last.delta
        more = Alignment.between(others, targets)
        inner = (last.delta.unsqueeze(1) @ matrix @ last.input.unsqueeze(2)).view(1, -1)
        size, target = (
            last.delta.norm(dim=1) * last.input.norm(dim=1),
            matrix.flatten(1).norm(dim=1),
        )
        pairs = ((inner, more.inner), (size[None], more.size), (target[None], more.target))
        return Alignment(*(torch.cat(pair) for pair in pairs))

    @staticmethod
    def between(gradients: Params, targets: Params) -> Alignment:
        """Of gradients (B, ...) by name, once they are formed."""
        pairs = [
            (u.reshape(len(u), -1), targets[name].reshape(len(u), -1))
            for name, u in gradients.items()
        ]
        return Alignment(
            torch.stack([(u * v).sum(1) for u, v in pairs]),
            torch.stack([u.norm(dim=1) for u, _ in pairs]),
            torch.stack([v.norm(dim=1) for _, v in pairs]),
        )

    def by_tensor(self) -> Tensor:
        """Σ_j D(g_j(x), g_j), (B,): the sum of Chen & Campbell's hybrid.py:784."""
        return (1 - self.inner / _positive(self.size * self.target)).sum(0)

    def whole(self) -> Tensor:
        """D(g(x), g), (B,), all tensors as one vector: what Geiping et al. minimise."""
        return 1 - self.inner.sum(0) / _positive(self.size.norm(dim=0) * self.target.norm(dim=0))


def _positive(size: Tensor) -> Tensor:
    return size.clamp_min(torch.finfo(size.dtype).tiny)


def total_variation(x: Tensor) -> Tensor:
    """mean |Δ horizontal| + mean |Δ vertical| of images (B, c, h, w), (B,)."""
    horizontal = x.diff(dim=-1).abs().flatten(1).mean(1)
    return horizontal + x.diff(dim=-2).abs().flatten(1).mean(1)


@dataclass(frozen=True)
class Descent:
    """How x is moved, by Adam.

    Attributes:
        step_size.
        signed: by the sign of the gradient.
        boxed: x is kept within what it can be, [middle − ½, middle + ½] for an image and [−1, 1]
            for what tanh returns.
        milestones: step size divided by ten at these shares of the budget.
        middle: of the pixels' range, ½ for images in [0, 1].
    """

    step_size: float
    signed: bool = False
    boxed: bool = False
    milestones: tuple[float, ...] = ()
    middle: float = 0.0


CHEN_DESCENT = Descent(1e-3)  # of Chen & Campbell, §4: Adam as PyTorch has it
#: invertinggradients@1157b61c inversefed/reconstruction_algorithms.py:14, 18, 157; steps of 0.1 of
#: images divided by their deviation, for CIFAR-10 about 0.25 (inversefed/consts.py:10)
GEIPING_DESCENT = Descent(0.025, True, True, milestones=(3 / 8, 5 / 8, 7 / 8))


@dataclass(frozen=True)
class GradientMatching:
    """α D + β TV(x) + γ ‖U x − V‖², B victims at once, each with its own Adam; x is x_{first−1}.

    Attributes:
        whole: one D of the whole gradient, else Σ_j D_j over its tensors j ≥ first.
        system: z (B, o, h', w') and δ of layer `first`, needed for γ > 0.
        image: shape of one image, where the gradient is a module's: x is then a set of n images
            with one gradient.
    """

    gradient: Gradient | Gradient[ModuleNetwork]
    steps: int
    descent: Descent = CHEN_DESCENT
    first: int = 1
    whole: bool = False
    alpha: float = 1.0
    beta: float = 0.0
    gamma: float = 0.0
    system: tuple[Tensor, Tensor] | None = None
    image: Shape = ()

    @property
    def shape(self) -> Shape:
        """Of one x, (c, h, w)."""
        network = self.gradient.network
        return (
            network.image_shapes()[self.first - 1] if isinstance(network, ConvNet) else self.image
        )

    @property
    def optimiser(self) -> Adam:
        """What moves x, with PyTorch's defaults of Adam, which the paper uses."""
        return Adam(self.descent.step_size, (0.9, 0.999), 1e-8)

    def init(self, x_init: Tensor) -> State:
        """State at x_init (B, 1, c·h·w): B sets of one flat image, as `reconstruct` has it; by a
        module one of n.
        """
        return {"adam": self.optimiser.init(x_init), "accepted": unevaluated(x_init)}

    def energy(self, x: Tensor) -> Tensor:
        """Of x (B, c, h, w); (B,). Of n images of a module (1,), with the mean of their total
        variation.
        """
        released = self.gradient
        if isinstance(released.network, ConvNet):
            direction = cross_entropy_direction(released.labels)
            layers, reached = released.network.chain(released.theta, x, direction, self.first)
            alignment = Alignment.of(layers, released.gradients)
        else:
            alignment = Alignment.between(released.at(x), released.gradients)
        value = self.alpha * (alignment.whole() if self.whole else alignment.by_tensor())
        if self.beta:
            value = value + self.beta * total_variation(x).view(len(value), -1).mean(1)
        if self.system is not None:  # of a ConvNet
            (z, delta), layer = self.system, layers[0]
            value = value + self.gamma * (reached[0] - z.flatten(2)).square().flatten(1).sum(1)
            misfit = delta.flatten(2) @ layer.input.mT - released.gradients[layer.weight].flatten(2)
            value = value + self.gamma * misfit.square().flatten(1).sum(1)
        return value

    def step(self, state: State) -> State:
        """Evaluate, keep the best by energy, move."""
        x, k = state["adam"]["x"], int(state["adam"]["taken"]) + 1
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            energy = self.energy(leaf.reshape(-1, *self.shape))
        (grad,) = torch.autograd.grad(energy.sum(), leaf)
        energy, grad = energy.detach(), grad.sign() if self.descent.signed else grad
        accepted = keep(
            energy < state["accepted"]["energy"], {"x": x, "energy": energy}, state["accepted"]
        )
        factor = 0.1 ** sum(k > share * self.steps for share in self.descent.milestones)
        adam = self.optimiser.step(state["adam"], energy, grad, factor)
        if self.descent.boxed:
            middle, side = (self.descent.middle, 0.5) if self.first == 1 else (0.0, 1.0)
            adam["x"] = adam["x"].clamp(middle - side, middle + side)
        return {"adam": adam, "accepted": accepted}


def seeded_start(gradient: Gradient, seed: int) -> Tensor:
    """N(0, 1) right after manual_seed(seed), the same for every victim, as in Chen & Campbell's
    hybrid.py:996; (B, c, h, w).
    """
    generator = torch.Generator().manual_seed(seed)
    image = torch.randn(1, *gradient.network.shape, generator=generator)
    return image.expand(len(gradient.labels), -1, -1, -1).to(
        gradient.theta[gradient.network.last[0]]
    )


def cosine_tv(
    gradient: Gradient | Gradient[ModuleNetwork],
    x_init: Tensor,
    steps: int = COSINE_STEPS,
    checkpoint: Checkpoint | None = None,
    *,
    whole: bool = False,
    descent: Descent = CHEN_DESCENT,
    tv: float = 0.01,
) -> Reconstruction:
    """CosineTV as the paper runs it, unless told otherwise, from x_init (B, c, h, w); x̂ (B, 1, d),
    or (1, n, d) of n images with one gradient by a module.

    Args:
        whole: see `GradientMatching`.
        tv: weight of the total variation, once per cosine, so per parameter tensor unless `whole`:
            0.01 and its times are those of Chen & Campbell's hybrid.py:784 and 998.
    """
    cosines = 1 if whole else len(gradient.gradients)
    attack = GradientMatching(
        gradient, steps, descent, whole=whole, beta=tv * cosines, image=tuple(x_init.shape[1:])
    )
    dtype = next(iter(gradient.theta.values())).dtype
    start = x_init.to(dtype).flatten(1).view(len(gradient.split()), -1, x_init[0].numel())
    return reconstruct(attack, start, steps, checkpoint=checkpoint, label="cosine")


#: Hybrid by layer: (steps, α, β, γ); layers beyond the second as the last entry
HYBRID = ((10_000, 1.0, 1.0, 0.05), (8_000, 1.0, 1.0, 0.1), (1_000, 10.0, 0.1, 1.0))


def hybrid(
    gradient: Gradient,
    share: float = 1.0,
    checkpoints: Checkpoints | None = None,
    *,
    whole: bool = False,
    descent: Descent = CHEN_DESCENT,
    check: bool = True,
    tv: float = 1.0,
) -> Tensor:
    """Hybrid, eq. (16): from the last layer to the first, each started from the minimum-norm
    solution of eq. (8) and improved by gradient matching; images (B, c, h, w). The linear systems
    are solved victim by victim in float64, the matching runs on all victims at once in the
    precision of `gradient`.

    Args:
        share: of the published steps.
        whole: see `GradientMatching`.
        check: refuse gradients of several images, and with them noisy ones.
        tv: factor of β, the weight of the total variation, in every layer.
    """
    if gradient.network.depth == 0:
        raise ReconError("the network has no convolution: eq. (4) alone gives the image")
    chains = [layer_by_layer(victim, check) for victim in gradient.split()]
    layers = [next(chain) for chain in chains]
    while True:
        layer = layers[0].layer
        published, alpha, beta, gamma = HYBRID[min(layer, len(HYBRID)) - 1]
        steps = max(1, round(share * published))
        start, z, delta = (
            torch.cat([getattr(f, name) for f in layers]).to(gradient.theta[f"w{layer}"])
            for name in ("x", "z", "delta")
        )
        attack = GradientMatching(
            gradient, steps, descent, layer, whole, alpha, tv * beta, gamma, (z, delta)
        )
        checkpoint = checkpoints.at(f"hybrid-{layer}") if checkpoints is not None else None
        result = reconstruct(
            attack,
            start.flatten(1)[:, None],
            steps,
            checkpoint=checkpoint,
            label=f"hybrid, layer {layer}",
        )
        x = result.x_hat.view_as(start)
        if layer == 1:
            return x
        layers = [chain.send(image[None]) for chain, image in zip(chains, x, strict=True)]


def dlg(
    gradient: Gradient | Gradient[ModuleNetwork], x_init: Tensor, steps: int = DLG_STEPS
) -> tuple[Tensor, Tensor]:
    """DLG: PyTorch's L-BFGS, learning rate 1, `steps` outer steps of up to 20 inner ones, from
    x_init (B, c, h, w). Returns the last images, as hybrid.py:754 does, and the energies after each
    outer step (steps, B); of n images with one gradient by a module (steps, 1). It may diverge:
    numbers then grow without bound and stop being reproducible.
    """

    def descend(victim: Any, start: Tensor) -> tuple[Tensor, Tensor]:
        x = start.to(dtype, copy=True).requires_grad_()
        optimiser = torch.optim.LBFGS([x], lr=1)

        def closure() -> Tensor:
            optimiser.zero_grad()
            gradients = victim.at(x)
            value = torch.as_tensor(
                sum((g - victim.gradients[name]).square().sum() for name, g in gradients.items())
            )
            value.backward()
            return value

        history = [optimiser.step(closure).detach() for _ in range(steps)]
        return x.detach(), torch.stack(history)

    victims, dtype = gradient.split(), next(iter(gradient.theta.values())).dtype
    ends = map(descend, victims, x_init.chunk(len(victims)))
    images, histories = zip(*ends, strict=True)
    return torch.cat(images), torch.stack(histories, dim=1)
