"""How good is the hypergradient of a ReLU net, and does its error matter?  Small networks, finite differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recon.attacks.bilevel_span import SpanAttack, SpanWeights, quasi_newton
from recon.attacks.kinks import KinkAttack, follow, settle
from recon.attacks.reconstruct import reconstruct
from recon.chapters.base import Context, Outcome
from recon.chapters.bilevel_common import BOX, STARTS, start_of
from recon.chapters.bilevel_hidden.metrics import Cosines, HypergradientMetrics, SameStart
from recon.chapters.bilevel_hidden.sizes import HypergradientSizes
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP, one_hidden
from recon.optim.descent import HeavyBall
from recon.optim.lbfgs_in_place import InPlaceResult, InPlaceSettings, lbfgs_in_place
from recon.optim.subspace import Subspace, reduced
from recon.training.hidden import HiddenObjective, Pass

STEP = 1e-5  # of central differences


@dataclass(frozen=True)
class Case:
    """One point x at which hypergradients are compared: an inner solution from a start of its own."""

    name: str
    star: SpanWeights
    x: Tensor
    y: Tensor
    weight_decay: float
    theta_0: Callable[[Tensor], Tensor]
    iterations: int

    @property
    def attack(self) -> SpanAttack:
        """By Gauss–Newton."""
        return SpanAttack(self.star, self.y, self.weight_decay, self.theta_0)

    def solved(self) -> tuple[Tensor, InPlaceResult]:
        """The basis of x, and θ(x) as L-BFGS returns it."""
        basis = self.attack.basis_of(self.x)
        settings = InPlaceSettings(tol=1e-12, max_iter=self.iterations, history=20)
        return basis, self.attack.solved(self.x, basis, self.theta_0(basis), settings)


def compute_hypergradient(sizes: HypergradientSizes, context: Context) -> Outcome[HypergradientMetrics]:
    """Cosines of ReLU and of softplus, then whole attacks from the same starts."""
    data = context.dataset(sizes.n_train, sizes.n_held_out)
    images = Bundle.of(data, torch.device("cpu"), torch.float64, centred=False)
    relu = _cases(sizes, context, images, one_hidden(sizes.width, images.train.shape[1]))
    smooth = _cases(sizes, context, images, one_hidden(sizes.width, images.train.shape[1], sizes.smoothing))
    on_kinks = [found for case in relu if (found := relu_cosines(case, sizes, context)) is not None]
    metrics = HypergradientMetrics(
        n_train=len(images.train),
        width=sizes.width,
        tried=len(relu),
        relu=on_kinks,
        smooth=[smooth_cosines(case, sizes, context) for case in smooth if case.name.endswith("seed 1")],
        ends=[_ends(case, sizes) for case in relu if case.name.endswith("seed 1")],
    )
    return Outcome(metrics, {"train_index": images.train_index})


def _cases(sizes: HypergradientSizes, context: Context, images: Bundle, network: MLP) -> list[Case]:
    """Every weight decay, start of the images, and inner start by another seed's default initialisation."""
    cases = []
    for decay in sizes.weight_decays:
        basis = Subspace.spanned_by(images.train).basis
        objective = HiddenObjective(network.with_inputs(len(basis)), images.train @ basis.mT, images.y, decay)
        settings = InPlaceSettings(tol=1e-12, max_iter=sizes.inner_iterations, history=20)
        found = lbfgs_in_place(objective.value_and_grad, _drawn(network, context, 0)(basis), settings)
        star = SpanWeights(network, found.theta, basis)
        for start in STARTS:
            x = start_of(images, start, context.stream("hidden.start"))
            for seed in range(1, sizes.seeds):
                name = f"weight decay {decay}, {start}, seed {seed}"
                theta_0 = _drawn(network, context, seed)
                cases.append(Case(name, star, x, images.y, decay, theta_0, sizes.inner_iterations))
    return cases


def _drawn(network: MLP, context: Context, seed: int) -> Callable[[Tensor], Tensor]:
    def theta_0(basis: Tensor) -> Tensor:
        drawn = network.init(context.stream("hidden.weights", seed), dtype=torch.float64)
        return reduced(network, network.flatten(drawn), Subspace(basis))[1]

    return theta_0


# ---------------------------------------------------------------------------------------------- one point


def relu_cosines(case: Case, sizes: HypergradientSizes, context: Context) -> Cosines | None:
    """At the KKT point next to what L-BFGS found; None where the conditions cannot be certified."""
    basis, found = case.solved()
    objective = case.attack.objective(case.x, basis)
    point = settle(objective, found.theta)
    if not point.certified:
        return None
    kinked = KinkAttack(case.star, case.y, case.weight_decay, case.theta_0)
    exact = kinked.energy_and_grad(case.x, basis, replace(found, theta=point.theta))[1]

    def energy(moved: Tensor) -> float:
        there = case.attack.basis_of(moved)
        start = SpanWeights(case.star.network, point.theta, basis).onto(there)
        theta = follow(case.attack.objective(moved, there), start, point.kinks, 4, point.mu)[0]
        return SpanWeights(case.star.network, theta, there).distance(case.star)

    return _cosines(case, sizes, context, basis, found, exact, energy, kinked, point.kinks.at.shape[1])


def smooth_cosines(case: Case, sizes: HypergradientSizes, context: Context) -> Cosines:
    """Softplus: θ(x) by Newton's method, p by the Hessian."""
    basis, found = case.solved()

    def newton(moved: Tensor, there: Tensor, theta: Tensor) -> Tensor:
        objective = case.attack.objective(moved, there)
        for _ in range(5):
            hessian = dense_hessian(objective, theta)
            theta = theta - torch.linalg.solve(hessian, objective.value_and_grad(theta)[1])
        return theta

    theta = newton(case.x, basis, found.theta)
    solver = replace(case.attack, inverse=exact_inverse)
    exact = solver.energy_and_grad(case.x, basis, replace(found, theta=theta))[1]

    def energy(moved: Tensor) -> float:
        there = case.attack.basis_of(moved)
        start = SpanWeights(case.star.network, theta, basis).onto(there)
        return SpanWeights(case.star.network, newton(moved, there, start), there).distance(case.star)

    return _cosines(case, sizes, context, basis, found, exact, energy, solver, 0)


def dense_hessian(objective: HiddenObjective, theta: Tensor) -> Tensor:
    """∇²E (p, p) by automatic differentiation."""

    def value(t: Tensor) -> Tensor:
        return objective.value(t, objective.at(t).logits)

    return torch.autograd.functional.hessian(value, theta)


def exact_inverse(objective: HiddenObjective, _: Pass, found: InPlaceResult) -> Callable[[Tensor], Tensor]:
    """[∇²E]⁻¹ of a smooth network."""
    hessian = dense_hessian(objective, found.theta)
    return lambda v: torch.linalg.solve(hessian, v)


def _cosines(
    case: Case,
    sizes: HypergradientSizes,
    context: Context,
    basis: Tensor,
    found: InPlaceResult,
    exact: Tensor,
    energy: Callable[[Tensor], float],
    formula: SpanAttack,
    kinks: int,
) -> Cosines:
    """The exact one against central differences in random directions of the span; the others against it, at L-BFGS's
    θ."""
    span = Subspace.spanned_by(case.x, case.star.basis)
    generator = context.stream("hidden.start", 1)
    slopes, expected = [], []
    for _ in range(sizes.directions):
        way = span.lift(torch.randn(len(case.x), len(span), generator=generator, dtype=torch.float64))
        slopes.append((energy(case.x + STEP * way) - energy(case.x - STEP * way)) / (2 * STEP))
        expected.append((exact * way).sum())
    measured, predicted = torch.tensor(slopes, dtype=torch.float64), torch.stack(expected)
    others = {
        "kkt": formula,
        "gauss_newton": case.attack,
        "quasi_newton": replace(case.attack, inverse=quasi_newton),
    }
    return Cosines(
        case=case.name,
        kinks=kinks,
        exact=_cosine(predicted, measured),
        exact_error=((predicted - measured).norm() / measured.norm()).item(),
        **{name: _cosine(attack.energy_and_grad(case.x, basis, found)[1], exact) for name, attack in others.items()},
    )


def _cosine(a: Tensor, b: Tensor) -> float:
    return ((a * b).sum() / (a.norm() * b.norm())).item()


# ------------------------------------------------------------------------------------------------- attacks


def _ends(case: Case, sizes: HypergradientSizes) -> SameStart:
    """The same start and budget, three ways to the hypergradient."""
    descent = HeavyBall(10.0, 0.5, box=BOX, max_relative_step=0.1)
    common = (case.star, case.y, case.weight_decay, case.theta_0)
    attacks = {
        "gauss_newton": SpanAttack(*common, descent=descent),
        "quasi_newton": SpanAttack(*common, inverse=quasi_newton, descent=descent),
        "kkt": KinkAttack(*common, descent=descent),
    }
    histories = {name: reconstruct(attack, case.x[None], sizes.steps).history[:, 0] for name, attack in attacks.items()}
    ends = {name: history[-1].item() for name, history in histories.items()}
    return SameStart(case=case.name, first=histories["gauss_newton"][0].item(), **ends)
