"""With candidates in hand: which of them do the weights consist of? KKT multipliers as a score of
membership.

Where training ends, weights are a sum over training images,

    θ* = Σ_i λ_i ∇_θ φ(x_i, y_i; θ*),   λ_i ≥ 0,

with the confidence φ = log p_y − log(1 − p_y): of one logit ± Φ, of K outputs Φ_y − log Σ_{j≠y}
e^{Φ_j}. That is exact where weight decay has come to rest, with λ_i = (1 − p_i)/(n · decay).
Without decay it holds in the limit of long training of homogeneous networks, where φ becomes the
margin (Lyu & Li 2020; eq. 3 of Haim et al. 2022). Where θ⁰ is known, θ* − θ⁰ takes the place of θ*:
exact for linear models trained by gradient descent, nearly so for wide networks.

The adversary has a pool of candidates, some of them training images, and fits λ ≥ 0 over all of the
pool by least squares, as ImpMIA does (Golbari et al. 2025). What they compare are the λ_i. Only
inner products of gradients enter, an n × n matrix; no shadow network is trained, and nothing is
known of the training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add

import torch
from torch import Tensor, nn

from recon.errors import ReconError
from recon.nets.mlp import MLP
from recon.nets.module import ModuleNetwork
from recon.nets.network import Params
from recon.training.kkt import confidence, nonnegative

# of the mean squared norm of a gradient: copies share a multiplier, and rounding is not fitted
RIDGE = 1e-6
BUDGET = 2**30  # bytes of gradients held at once
COLUMNS = 2**16  # of them in float64 at once


@dataclass(frozen=True)
class KKTSystem:
    """The least-squares problem of N candidates, in float64: gram ⟨g_i, g_j⟩ (N, N), products ⟨θ,
    g_i⟩ (N,) and norm ‖θ‖² (), where g_i = ∇_θ φ(x_i) and θ is θ*, or θ* − θ⁰.
    """

    gram: Tensor
    products: Tensor
    norm: Tensor

    def __add__(self, other: KKTSystem) -> KKTSystem:
        return KKTSystem(
            self.gram + other.gram, self.products + other.products, self.norm + other.norm
        )


@dataclass(frozen=True)
class Multipliers:
    """
    Attributes:
        values λ (N,) ≥ 0.
        score (N,): ⟨θ − Σ_{j≠i} λ_j g_j, g_i⟩ / ‖g_i‖², what candidate i would take beside the
            others were negative numbers allowed: λ_i where that is positive, and by how much i is
            refused where it is 0 · residual ‖θ − Σ_i λ_i g_i‖ / ‖θ‖: 0 where the pool explains the
            weights, 1 where it explains nothing.
    """

    values: Tensor
    score: Tensor
    residual: float


def multipliers(problem: KKTSystem, ridge: float = RIDGE) -> Multipliers:
    """λ ≥ 0 with the smallest ‖θ − Σ_i λ_i g_i‖² + ρ ‖λ‖², ρ = `ridge` times the mean ‖g_i‖², by
    SciPy's NNLS on the Cholesky factor of the Gram matrix. ReconError where a number is not finite,
    or no gradient differs from 0.
    """
    size = problem.gram.diagonal().mean()
    if not (
        torch.isfinite(problem.gram).all() and torch.isfinite(problem.products).all() and size > 0
    ):
        raise ReconError(
            "the gradients at the candidates vanish or are not finite: there are no multipliers"
            " to fit"
        )
    matrix = problem.gram.clone()
    matrix.diagonal().add_(ridge * size)
    values = nonnegative(torch.linalg.cholesky(matrix), problem.products)
    score = values + (problem.products - matrix @ values) / matrix.diagonal()
    energy = problem.norm - 2 * problem.products @ values + values @ problem.gram @ values
    return Multipliers(values, score, (energy / problem.norm).clamp_min(0).sqrt().item())


def from_gradients(gradients: Tensor, target: Tensor) -> KKTSystem:
    """Of gradients g (N, p) and θ (p,)."""

    def part(columns: Tensor, theta: Tensor) -> KKTSystem:
        g, theta = columns.double(), theta.double()
        return KKTSystem(g @ g.mT, g @ theta, theta.square().sum())

    return reduce(add, map(part, gradients.split(COLUMNS, dim=1), target.split(COLUMNS)))


def from_network(
    network: MLP | ModuleNetwork,
    theta_star: Tensor,
    x: Tensor,
    y: Tensor,
    theta_init: Tensor | None = None,
    budget: int = BUDGET,
) -> KKTSystem:
    """Of θ* (p,) and inputs x (N, ...) with classes y (N,), image by image by autograd. Frozen
    parameters of a module do not count, unless all are frozen.

    Args:
        theta_init (p,): θ⁰.
        budget: bytes of gradients that are held at once; more parameters take more passes.
    """
    theta = {
        name: value.detach().clone().requires_grad_()
        for name, value in network.unflatten(theta_star).items()
    }
    moved = network.unflatten(theta_star if theta_init is None else theta_star - theta_init)
    learned = set(theta)
    if isinstance(network, MLP):
        x = x.flatten(1)
    else:
        trained = {name for name, p in network.module.named_parameters() if p.requires_grad}
        learned = trained or learned

    systems = {} if isinstance(network, MLP) else _dense(network, theta, moved, learned, x, y)
    others = learned - {name for names in systems for name in names}

    def part(names: list[str]) -> KKTSystem:
        target = torch.cat([moved[name].flatten() for name in names])
        # of a tensor larger than the budget some columns in each pass
        width, found = max(budget // (len(x) * x.element_size()), 1), []
        for at in range(0, len(target), width):
            rows = target.new_empty(len(x), len(target[at : at + width]))
            for row, image, label in zip(rows, x.split(1), y.split(1), strict=True):
                row.copy_(_gradient(network, theta, names, image, label)[at : at + width])
            found.append(from_gradients(rows, target[at : at + width]))
        return reduce(add, found)

    sizes = {name: value.numel() for name, value in theta.items() if name in others}
    parts = _parts(sizes, len(x) * x.element_size(), budget) if sizes else ()
    return reduce(add, [*systems.values(), *map(part, parts)])


def _gradient(
    network: MLP | ModuleNetwork, theta: Params, names: Sequence[str], image: Tensor, label: Tensor
) -> Tensor:
    """∇φ of one image by the tensors of these names, flat."""
    with torch.enable_grad():
        phi = confidence(network(theta, image).reshape(1, -1), label).sum()
        chosen = [theta[name] for name in names]
        grads = torch.autograd.grad(phi, chosen, allow_unused=True, materialize_grads=True)
    return torch.cat([g.detach().flatten() for g in grads])


def _dense(
    network: ModuleNetwork, theta: Params, moved: Params, learned: set[str], x: Tensor, y: Tensor
) -> dict[tuple[str, ...], KKTSystem]:
    """By the names of their tensors, dense layers that are given one vector an image. No gradient
    is formed: that of image i is δ_i h_iᵀ, of the layer's input and the gradient at its output, and
    ⟨g_i, g_j⟩ = ⟨δ_i, δ_j⟩ (⟨h_i, h_j⟩ + 1), with 1 for the bias.
    """
    calls: dict[str, list[tuple[Tensor, Tensor]]] = {}

    def watch(name: str, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        calls.setdefault(name, []).append((inputs[0], output))

    layers = {
        name: part
        for name, part in network.module.named_modules()
        if isinstance(part, nn.Linear) and f"{name}.weight" in learned
    }
    passes: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in layers}
    hooks = [part.register_forward_hook(partial(watch, name)) for name, part in layers.items()]
    for image, label in zip(x.split(1), y.split(1), strict=True):
        calls.clear()
        with torch.enable_grad():
            phi = confidence(network(theta, image).reshape(1, -1), label).sum()
            whole = {
                name: call[0]
                for name, call in calls.items()
                if len(call) == 1 and call[0][1].dim() == 2
            }
            outputs = [output for _, output in whole.values()]
            deltas = torch.autograd.grad(phi, outputs, materialize_grads=True) if outputs else ()
        for (name, (h, _)), delta in zip(whole.items(), deltas, strict=True):
            passes[name].append((h.detach().double(), delta.double()))
    for hook in hooks:
        hook.remove()
    systems = {}
    for name, rows in passes.items():
        if len(rows) < len(x):
            continue
        h, delta = (torch.cat(part) for part in zip(*rows, strict=True))
        names = [f"{name}.{kind}" for kind in ("weight", "bias") if f"{name}.{kind}" in learned]
        weight, *bias = (moved[of].double() for of in names)
        gram = (delta @ delta.mT) * (h @ h.mT + len(bias))
        # of a weight that is used elsewhere, too, or an output changed in place, it is another
        square = _gradient(network, theta, names, x[:1], y[:1]).double().square().sum()
        if (gram[0, 0] - square).abs() <= 1e-3 * square:
            products = (sum(bias, h @ weight.mT) * delta).sum(1)
            norm = sum(part.square().sum() for part in (weight, *bias))
            systems[tuple(names)] = KKTSystem(gram, products, torch.as_tensor(norm))
    return systems


def _parts(sizes: dict[str, int], bytes_each: int, budget: int) -> Iterator[list[str]]:
    """Names of tensors that are differentiated together: in order, as many as fit, at least one."""
    part: list[str] = []
    for name, size in sizes.items():
        if part and (sum(sizes[other] for other in part) + size) * bytes_each > budget:
            yield part
            part = []
        part.append(name)
    yield part
