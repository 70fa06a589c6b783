"""Appendix A (no bias), Appendix B (a hard constraint), Appendix F (pre-training), one after the
other.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import LinearConstraint, minimize
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import (
    SEED,
    TABLE_1,
    Attacked,
    Victims,
    inputs,
    pixels,
    pretrain,
    rows_to_train_on,
)
from companion.store.record import Record
from recon.attacks.gauss_newton import RowSpace
from recon.attacks.gradient_matching import HYBRID, GradientMatching, hybrid
from recon.attacks.rgap import LayerSystem, layer_by_layer, logit_gradients, rgap, system_of
from recon.nets.conv import ConvNet, Params
from recon.released import Gradient
from recon.scoring.metrics import mse


def relative_time(found: Record, solver: str) -> float:
    """Of "as_given" or "in_kernel" until it was as near as the soft constraint, over the soft
    constraint's; a lower bound where it never was.
    """
    hard = found[solver]
    return (hard.seconds if hard.reached is None else hard.reached) / found.soft.seconds


def smaller(norms: Record) -> float:
    """Share of the images whose gradient became smaller."""
    return float(np.mean(np.array(norms.after) < np.array(norms.before)))


def ratio(norms: Record) -> float:
    """After over before, in the middle."""
    return float(np.median(np.array(norms.after) / np.array(norms.before)))


class Metrics(Record):
    """without_bias, trained: by network.

    without_bias: R-GAP with eq. (4), and with eq. (5) where the gradient of the bias is withheld:
    errors of both images. constrained: From the same start, with its error: a soft constraint, and
    a trust region that is given U x = V as a matrix (as_given), or coordinates of the kernel of U,
    whose basis takes kernel_seconds (in_kernel). constrained.soft: One way to minimise Hybrid's
    energy on the truck. violation: the part of the way from the start that U sees, over ‖x_0‖ ·
    seconds: of the processor, with those for a basis of the kernel · reached: those after which the
    error was no more than the soft constraint's in the end, None for never. trained: One network,
    norms of the gradients of images before and after training. seen: it trained on them · unseen:
    others of the two classes · other: of the other classes.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        without_bias: networks of Table 1 that release no gradient of their bias.
        constrained: the network of one convolution whose U x = V is kept exactly.
        share: of Hybrid's published steps, when the constraint is soft.
        as_given, in_kernel: steps when it is hard.
        epochs: of pre-training.
        images: of each group, whose gradients are measured before and after.
    """

    without_bias: tuple[str, ...] = tuple(TABLE_1)
    constrained: str = "CNN2 V2"
    share: float = 1.0
    as_given: int = 100
    in_kernel: int = 400
    trained: tuple[str, ...] = ("CNN4 V1", "CNN4 V2")
    epochs: int = 300
    images: int = 100


SIZES = {
    "smoke": Sizes(
        without_bias=("CNN3 V4",),
        share=0.001,
        as_given=1,
        in_kernel=2,
        trained=("CNN4 V1",),
        epochs=1,
        images=2,
    ),
    "laptop": Sizes(
        without_bias=("CNN2 V1", "CNN2 V2", "CNN3 V2"),
        share=0.1,
        as_given=5,
        in_kernel=40,
        epochs=30,
        images=10,
    ),
    "paper": Sizes(),
}
HELD_OUT = 10  # of so many images of the two classes, one


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Three questions."""
    solvers, arrays = constrained(sizes, context)
    metrics = Metrics(
        without_bias={name: without_bias(name, context) for name in sizes.without_bias},
        constrained=solvers,
        trained={name: trained(name, sizes, context) for name in sizes.trained},
    )
    return Outcome(metrics, arrays)


def without_bias(name: str, context: Context) -> Record:
    """A network whose bias is 0 and stays 0: its gradient is not released, and (5) gives it
    back.
    """
    attacked, images = Attacked.of(name, context.pool), Victims.of(context.pool)
    weight, bias = attacked.network.last
    theta = attacked.theta | {bias: torch.zeros_like(attacked.theta[bias])}
    whole = Gradient.each(attacked.network, theta, images.x, images.labels)
    found = []
    for victim in whole.split():
        delta = logit_gradients(theta[weight], victim.gradients[weight][0], int(victim.labels[0]))
        found.append(rgap(replace(victim, gradients=victim.gradients | {bias: delta[None]})))
    return Record(
        with_bias=mse(torch.cat([rgap(victim) for victim in whole.split()]), images.x).tolist(),
        without=mse(torch.cat(found), images.x).tolist(),
    )


def constrained(sizes: Sizes, context: Context) -> tuple[Record, Tensors]:
    """The truck on a network of one convolution, from the minimum-norm solution: (16), and (11) in
    two ways.
    """
    attacked, images = Attacked.of(sizes.constrained, context.pool), Victims.of(context.pool)
    truth = images.x[:1]
    gradient = Gradient.each(attacked.network, attacked.theta, truth, images.labels[:1])
    single, layer = gradient.to(torch.float32), next(layer_by_layer(gradient))
    steps, alpha, beta, _ = HYBRID[0]
    began = time.process_time()
    problem = HardConstraint.of(GradientMatching(single, steps, alpha=alpha, beta=beta), layer)
    kernel_seconds = time.process_time() - began

    began = time.process_time()
    soft = hybrid(single, sizes.share).flatten().double()
    seconds = time.process_time() - began

    def error(x: Tensor) -> float:
        return (x - truth.flatten()).square().mean().item()

    def solver(x: Tensor, steps: int, seconds: float, reached: float | None) -> Record:
        seconds, reached = round(seconds, 2), None if reached is None else round(reached, 2)
        return Record(
            steps=steps,
            violation=problem.violation(x),
            mse=error(x),
            seconds=seconds,
            reached=reached,
        )

    def of(course: Course, before: float = 0.0) -> Record:
        spent = (course.seconds + before).tolist()
        there = [at for x, at in zip(course.x, spent, strict=True) if error(x) <= error(soft)]
        return solver(course.x[-1], len(course.x) - 1, spent[-1], min(there, default=None))

    as_given, in_kernel = (
        minimised(problem, sizes.as_given, as_given=True),
        minimised(problem, sizes.in_kernel),
    )
    found = Record(
        start_mse=error(problem.start),
        kernel_seconds=round(kernel_seconds, 2),
        soft=solver(soft, max(1, round(sizes.share * steps)), seconds, seconds),
        as_given=of(as_given),
        in_kernel=of(in_kernel, kernel_seconds),
    )
    shown = {"truth": truth[0], "start": problem.start, "soft": soft}
    shown |= {"as given": as_given.x[-1], "in the kernel": in_kernel.x[-1]}
    return found, {name: pixels(x.view_as(truth)) for name, x in shown.items()}


@dataclass(frozen=True)
class Course:
    """After every step, the start's first: the image of lowest energy so far (steps + 1, c·h·w),
    and the processor's seconds since the start (steps + 1,).
    """

    x: Tensor
    seconds: Tensor


@dataclass(frozen=True)
class HardConstraint:
    """Hybrid's correction with U x = V as a hard constraint, eq. (11) of Chen & Campbell (2022),
    Appendix B.

        min_x  α Σ_j D(g_j(x), g_j) + β TV(x)   subject to   U x = V.

    The paper tried trust regions (Nocedal & Wright 2006; Lalee, Nocedal & Plantenga 1998, which is
    SciPy's `trust-constr`) and found them slow; it then made the constraint soft, eq. (16). Such a
    solver factors U at every step. With x = x_0 + N c, N an orthonormal basis of the kernel of U,
    the constraint holds for every c instead.

    Attributes:
        matching: `GradientMatching` of B = 1 with γ = 0.
        start (c·h·w,): a solution of U x = V.
        system (r, c·h·w): U.
        kernel (c·h·w, k): an orthonormal basis of what U does not see.
    """

    matching: GradientMatching
    start: Tensor
    system: Tensor
    kernel: Tensor

    @staticmethod
    def of(matching: GradientMatching, layer: LayerSystem) -> HardConstraint:
        """From the minimum-norm solution of the layer that `matching` is about."""
        network = matching.gradient.network
        assert isinstance(network, ConvNet)  # whose linear systems these are
        conv, shape = network.convs[layer.layer - 1], network.image_shapes()[layer.layer - 1]
        weight = matching.gradient.theta[f"w{layer.layer}"].double()
        system = torch.from_numpy(system_of(conv, weight, layer.delta[0], shape).dense())
        seen = RowSpace.of(system).basis
        kernel = torch.linalg.qr(seen, mode="complete").Q[:, seen.shape[1] :]
        return HardConstraint(matching, layer.x.flatten(), system, kernel.contiguous())

    def value_and_grad(self, x: Tensor) -> tuple[float, Tensor]:
        """Of the energy at x (c·h·w,), in the precision of the gradient."""
        dtype = self.matching.gradient.theta["w1"].dtype
        leaf = x.detach().clone().to(dtype).requires_grad_()
        with torch.enable_grad():
            energy = self.matching.energy(leaf.view(1, *self.matching.shape))
        (grad,) = torch.autograd.grad(energy.sum(), leaf)
        return energy.item(), grad.double()

    def violation(self, x: Tensor) -> float:
        """Length of the part of x − x_0 that U sees, over ‖x_0‖."""
        moved = x.double() - self.start
        return float((moved - self.kernel @ (self.kernel.mT @ moved)).norm() / self.start.norm())


def minimised(problem: HardConstraint, steps: int, as_given: bool = False) -> Course:
    """`steps` of SciPy's trust region, second derivatives by BFGS: on c; or, as_given, on x − x_0
    with U as a matrix that has to take it to 0.
    """
    basis = torch.eye(len(problem.start)).double() if as_given else problem.kernel
    held = [LinearConstraint(problem.system.numpy(), 0.0, 0.0)] if as_given else []
    began, lowest = time.process_time(), problem.value_and_grad(problem.start)[0]
    images, seconds, best = [problem.start], [0.0], problem.start

    def value(c: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, lowest
        x = problem.start + basis @ torch.from_numpy(c)
        energy, grad = problem.value_and_grad(x)
        if energy < lowest:
            best, lowest = x, energy
        return energy, (basis.mT @ grad).numpy()

    def note(*_: object) -> None:
        images.append(best)
        seconds.append(time.process_time() - began)

    options = {"maxiter": steps, "gtol": 0.0, "xtol": 0.0}
    start = np.zeros(basis.shape[1])
    with warnings.catch_warnings():
        # of a step so short that float32 sees no change of the gradient, and of rows of U that
        # others imply
        warnings.simplefilter("ignore", UserWarning)
        minimize(
            value,
            start,
            jac=True,
            method="trust-constr",
            constraints=held,
            callback=note,
            options=options,
        )
    return Course(torch.stack(images), torch.tensor(seconds))


def trained(name: str, sizes: Sizes, context: Context) -> Record:
    """Norms of the gradients of three groups of images, before and after training."""
    network, pool = TABLE_1[name], context.pool
    rows = rows_to_train_on(pool)
    held_out = np.arange(len(rows)) % HELD_OUT == 0
    parts = {
        kind: (inputs(pool, rows[chosen]).float(), torch.from_numpy(pool.labels[rows[chosen]]))
        for kind, chosen in (("train", ~held_out), ("test", held_out))
    }
    theta = network.init(torch.Generator().manual_seed(SEED))
    after = pretrain(
        network, theta, *parts["train"], sizes.epochs, torch.Generator().manual_seed(SEED)
    )
    thetas = {"before": theta, "after": after}
    images = Victims.of_all_classes(pool, sizes.images)
    others = ~torch.isin(torch.tensor(images.index), torch.from_numpy(pool.index[rows]))
    groups = {
        "seen": tuple(each[: sizes.images] for each in parts["train"]),
        "unseen": tuple(each[: sizes.images] for each in parts["test"]),
        "other": (images.x[others].float(), images.labels[others]),
    }
    return Record(
        {
            kind: Record(
                {when: sizes_of(network.gradients(at, *part)) for when, at in thetas.items()}
            )
            for kind, part in groups.items()
        }
    )


def sizes_of(gradients: Params) -> list[float]:
    """Norm of each image's whole gradient."""
    return (
        torch.stack([each.flatten(1).square().sum(1) for each in gradients.values()])
        .sum(0)
        .sqrt()
        .tolist()
    )
