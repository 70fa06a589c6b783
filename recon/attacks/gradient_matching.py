"""Gradient matching: DLG, CosineTV and Hybrid of Chen & Campbell (2022); see `recon.attacks.rgap` for linear systems.

    DLG       min_x Σ_j ‖g_j(x) − g_j‖²                          (Zhu, Liu & Han 2019), by L-BFGS
    CosineTV  min_x Σ_j D(g_j(x), g_j) + τ TV(x)                 (Geiping et al. 2020), by Adam
    Hybrid    min_x α Σ_{j≥i} D(g_j(x), g_j) + β TV(x) + γ ‖U_i x − V_i‖²     (16), layer by layer, by Adam

with D(u, v) = 1 − ⟨u, v⟩/(‖u‖ ‖v‖) (10), g_j the gradient of parameter tensor j, TV the mean absolute difference of
horizontal plus that of vertical neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.attacks.rgap import LayerSystem, layer_by_layer
from recon.errors import ReconError
from recon.nets.conv import cross_entropy_direction
from recon.nets.gram import per_image_gradients
from recon.nets.network import LayerPass, Params
from recon.optim.descent import Adam
from recon.optim.loop import Checkpoint, Checkpoints
from recon.optim.tree import State, keep, unevaluated
from recon.released import Gradient

BETAS, EPS = (0.9, 0.999), 1e-8  # PyTorch's defaults of Adam, which the paper uses
COSINE_STEPS = 4800
DLG_STEPS = 300


def cosine_distance(u: Tensor, v: Tensor) -> Tensor:
    """D of eq. (10) for each row: (B, …), (B, …) -> (B,)."""
    u, v = u.flatten(1), v.flatten(1)
    size = (u.norm(dim=1) * v.norm(dim=1)).clamp_min(torch.finfo(u.dtype).tiny)
    return 1 - (u * v).sum(1) / size


def outer_distance(delta: Tensor, features: Tensor, target: Tensor) -> Tensor:
    """D(δ fᵀ, G), (B,): ⟨δ fᵀ, G⟩ = δᵀ G f and ‖δ fᵀ‖ = ‖δ‖ ‖f‖ do without the product.

    delta (B, k), features (B, j), target G (B, k, j).
    """
    inner = (delta.unsqueeze(1) @ target @ features.unsqueeze(2)).flatten()
    size = delta.norm(dim=1) * features.norm(dim=1) * target.flatten(1).norm(dim=1)
    return 1 - inner / size.clamp_min(torch.finfo(size.dtype).tiny)


def cosine_distances(layers: list[LayerPass], targets: Params) -> Tensor:
    """Σ_j D of eq. (10) between the gradients of these layers, the fully connected one last, and `targets`; (B,)."""
    *convolutions, last = layers
    total = outer_distance(last.delta, last.input, targets[last.weight])
    for name, gradient in per_image_gradients(convolutions).items():
        total = total + cosine_distance(gradient, targets[name])
    return total if last.bias is None else total + cosine_distance(last.delta, targets[last.bias])


def total_variation(x: Tensor) -> Tensor:
    """mean |Δ horizontal| + mean |Δ vertical| of images (B, c, h, w), (B,)."""
    horizontal = x.diff(dim=-1).abs().flatten(1).mean(1)
    return horizontal + x.diff(dim=-2).abs().flatten(1).mean(1)


@dataclass(frozen=True)
class GradientMatching:
    """α Σ_{j≥first} D_j + β TV(x) + γ ‖U x − V‖², B victims at once, each with its own Adam; x is x_{first−1}.

    system: z (B, o, h', w') and δ of layer `first`, needed for γ > 0 · signed, box, milestones: Geiping et al.'s own
    setting (sign of the gradient, clipping to the box, step size divided by ten at these shares of the budget).
    """

    gradient: Gradient
    steps: int
    step_size: float
    first: int = 1
    alpha: float = 1.0
    beta: float = 0.0
    gamma: float = 0.0
    system: tuple[Tensor, Tensor] | None = None
    signed: bool = False
    box: tuple[float, float] | None = None
    milestones: tuple[float, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int]:
        """(c, h, w) of x."""
        return self.gradient.network.image_shapes()[self.first - 1]

    @property
    def optimiser(self) -> Adam:
        """What moves x."""
        return Adam(self.step_size, BETAS, EPS)

    def init(self, x_init: Tensor) -> State:
        """State at x_init (B, 1, c·h·w): B sets of one flat image, as `reconstruct` has it."""
        return {"adam": self.optimiser.init(x_init), "accepted": unevaluated(x_init)}

    def energy(self, x: Tensor) -> Tensor:
        """Of x (B, c, h, w); (B,)."""
        released, direction = self.gradient, cross_entropy_direction(self.gradient.labels)
        chain = released.network.chain(released.theta, x, direction, self.first)
        value = self.alpha * cosine_distances(chain.layers, released.gradients)
        if self.beta:
            value = value + self.beta * total_variation(x)
        if self.gamma and self.system is not None:
            z, delta = self.system
            value = value + self.gamma * (chain.z[0] - z.flatten(2)).square().flatten(1).sum(1)
            layer = chain.layers[0]
            rest = delta.flatten(2) @ layer.input.mT - released.gradients[layer.weight].flatten(2)
            value = value + self.gamma * rest.square().flatten(1).sum(1)
        return value

    def step(self, state: State) -> State:
        """Evaluate, keep the best by energy, move."""
        x, k = state["adam"]["x"], int(state["adam"]["taken"]) + 1
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            energy = self.energy(leaf.reshape(len(x), *self.shape))
        (grad,) = torch.autograd.grad(energy.sum(), leaf)
        energy, grad = energy.detach(), grad.sign() if self.signed else grad
        accepted = keep(energy < state["accepted"]["energy"], {"x": x, "energy": energy}, state["accepted"])
        factor = 0.1 ** sum(k > share * self.steps for share in self.milestones)
        adam = self.optimiser.step(state["adam"], energy, grad, factor)
        if self.box is not None:
            adam["x"] = adam["x"].clamp(*self.box)
        return {"adam": adam, "accepted": accepted}


def seeded_start(gradient: Gradient, seed: int) -> Tensor:
    """N(0, 1) right after manual_seed(seed), the same for every victim, as in the paper; (B, c, h, w)."""
    own = torch.Generator().manual_seed(seed)
    one = torch.randn(1, *gradient.network.shape, generator=own)
    return one.expand(len(gradient.labels), -1, -1, -1).to(gradient.theta[gradient.network.last[0]])


def cosine_tv(
    gradient: Gradient, seed: int, steps: int = COSINE_STEPS, checkpoint: Checkpoint | None = None
) -> Reconstruction:
    """CosineTV as the paper runs it: Adam 1e-3, TV weighted 0.01 once per parameter tensor; x̂ (B, 1, d)."""
    attack = GradientMatching(gradient, steps, 1e-3, beta=0.01 * len(gradient.gradients))
    start = seeded_start(gradient, seed).flatten(1)[:, None]
    return reconstruct(attack, start, steps, checkpoint=checkpoint, label="cosine")


def cosine_tv_authors(
    gradient: Gradient, seed: int, steps: int = COSINE_STEPS, checkpoint: Checkpoint | None = None
) -> Reconstruction:
    """CosineTV in the setting of its own authors: Adam 0.1 on the gradient's sign, boxed, step size divided by ten at
    3/8, 5/8 and 7/8 of the budget, TV weight 0.01 once; x̂ (B, 1, d)."""
    attack = GradientMatching(
        *(gradient, steps, 0.1), beta=0.01, signed=True, box=(-0.5, 0.5), milestones=(3 / 8, 5 / 8, 7 / 8)
    )
    start = seeded_start(gradient, seed).flatten(1)[:, None]
    return reconstruct(attack, start, steps, checkpoint=checkpoint, label="cosine, authors")


#: Hybrid by layer: (steps, α, β, γ); layers beyond the second as the last entry
HYBRID = ((10_000, 1.0, 1.0, 0.05), (8_000, 1.0, 1.0, 0.1), (1_000, 10.0, 0.1, 1.0))


def hybrid(gradient: Gradient, share: float = 1.0, checkpoints: Checkpoints | None = None) -> Tensor:
    """Hybrid, eq. (16): from the last layer to the first, each started from the minimum-norm solution of eq. (8) and
    improved by gradient matching; images (B, c, h, w).  share: of the published steps.

    The linear systems are solved victim by victim in float64, the matching runs on all victims at once in the
    precision of `gradient`.
    """
    if gradient.network.depth == 0:
        raise ReconError("the network has no convolution: eq. (4) alone gives the image")
    chains = [layer_by_layer(each) for each in gradient.split()]
    found = [next(chain) for chain in chains]
    while True:
        x = improve(gradient, found, share, checkpoints)
        if found[0].layer == 1:
            return x
        found = [chain.send(image[None]) for chain, image in zip(chains, x, strict=True)]


def improve(gradient: Gradient, found: list[LayerSystem], share: float, checkpoints: Checkpoints | None) -> Tensor:
    """One layer of Hybrid: x_{i−1} of all victims (B, c, h, w)."""
    layer = found[0].layer
    like = gradient.theta[f"w{layer}"]
    published, alpha, beta, gamma = HYBRID[min(layer, len(HYBRID)) - 1]
    steps = max(1, round(share * published))
    start, z, delta = (torch.cat([getattr(f, name) for f in found]).to(like) for name in ("x", "z", "delta"))
    attack = GradientMatching(gradient, steps, 1e-3, layer, alpha, beta, gamma, (z, delta))
    kept = checkpoints.at(f"hybrid-{layer}") if checkpoints is not None else None
    result = reconstruct(attack, start.flatten(1)[:, None], steps, checkpoint=kept, label=f"hybrid, layer {layer}")
    return result.x_hat.view_as(start)


def dlg(gradient: Gradient, seed: int, steps: int = DLG_STEPS) -> tuple[Tensor, Tensor]:
    """DLG: PyTorch's L-BFGS, learning rate 1, `steps` outer steps of up to 20 inner ones, from N(0, 1).

    Returns the last images (B, c, h, w), as published, and the energies after each outer step (steps, B).  It may
    diverge: numbers then grow without bound and stop being reproducible.
    """
    images, histories = [], []
    for victim in gradient.split():
        x = seeded_start(victim, seed).clone().requires_grad_()
        optimiser = torch.optim.LBFGS([x], lr=1)

        def closure(x: Tensor = x, victim: Gradient = victim, optimiser: torch.optim.LBFGS = optimiser) -> Tensor:
            optimiser.zero_grad()
            found = victim.network.gradients(victim.theta, x, victim.labels)
            value = torch.as_tensor(sum((g - victim.gradients[name]).square().sum() for name, g in found.items()))
            value.backward()
            return value

        history = [optimiser.step(closure).detach() for _ in range(steps)]
        images.append(x.detach())
        histories.append(torch.stack(history))
    return torch.cat(images), torch.stack(histories, dim=1)


__all__ = [
    "GradientMatching",
    "cosine_distance",
    "cosine_distances",
    "cosine_tv",
    "cosine_tv_authors",
    "dlg",
    "hybrid",
    "seeded_start",
    "total_variation",
]
