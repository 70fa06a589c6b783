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
from scipy.sparse.linalg import norm
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
from recon.analysis.identifiability import rank_deficiency
from recon.attacks import by_hybrid, by_rgap
from recon.attacks.from_gradients import HybridSettings
from recon.attacks.gauss_newton import row_space
from recon.attacks.gradient_matching import HYBRID, GradientMatching
from recon.attacks.rgap import LayerSystem, layer_by_layer, logit_gradients, system_of, systems
from recon.images.pool import ImagePool
from recon.nets.conv import Activation, ConvNet, Params
from recon.released import Gradient
from recon.scoring.metrics import mse


def changed(norms: Record) -> Record:
    """Of gradients of some images: the share that became smaller, and after over before, in the
    middle.
    """
    ratios = np.array(norms.after) / np.array(norms.before)
    return Record(
        smaller=float(np.mean(ratios < 1)), images=len(ratios), ratio=float(np.median(ratios))
    )


class Metrics(Record):
    """without_bias, trained: by network.

    without_bias: R-GAP with eq. (4), and with eq. (5) where the gradient of the bias is withheld:
    errors of both images. constrained: From the same start, with its error: a soft constraint, and
    a trust region that is given U x = V as a matrix (as_given), or coordinates of the kernel of U,
    whose basis takes kernel_seconds (in_kernel). leaky: the same with LeakyReLU in the place of
    Tanh, without a step of as_given. constrained.soft: One way to minimise Hybrid's energy on the
    truck. violation: the part of the way from the start that U sees, over ‖x_0‖ · seconds: of the
    processor, with those for a basis of the kernel · until, reached: steps, and seconds, after
    which the error was no more than the soft constraint's in the end, None for never. trained: One
    network, norms of the gradients of images before and after training. seen: it trained on them ·
    unseen: others of the two classes · other: of the other classes. trained.ranks: deficiencies of
    the layers at each of the paper's images, before and after.
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
#: after every step, the start's first: the image of lowest energy so far (c·h·w,), and the
#: processor's seconds since the start
Course = list[tuple[Tensor, float]]


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Three questions."""
    solvers, arrays = constrained(sizes, context)
    leaky, _ = constrained(replace(sizes, as_given=0), context, "leaky_relu")
    metrics = Metrics(
        without_bias={name: without_bias(name, context) for name in sizes.without_bias},
        constrained=solvers,
        leaky=leaky,
        trained={name: trained(name, sizes, context) for name in sizes.trained},
    )
    return Outcome(metrics, arrays)


def without_bias(name: str, context: Context) -> Record:
    """A network whose bias is 0 and stays 0: its gradient is not released, and (5) gives it
    back.
    """
    attacked = Attacked.of(name, context.pool)
    images = Victims.of(context.pool)
    weight, bias = attacked.network.last
    theta = attacked.theta | {bias: torch.zeros_like(attacked.theta[bias])}
    whole = Gradient.each(attacked.network, theta, images.x, images.labels)
    deltas = [
        logit_gradients(theta[weight], gradient, int(label))
        for gradient, label in zip(whole.gradients[weight], whole.labels, strict=True)
    ]
    restored = replace(whole, gradients=whole.gradients | {bias: torch.stack(deltas)})
    shape = attacked.network.shape
    return Record(
        with_bias=mse(by_rgap(whole, shape).images, images.x).tolist(),
        without=mse(by_rgap(restored, shape).images, images.x).tolist(),
    )


def constrained(sizes: Sizes, context: Context, activation: str = "tanh") -> tuple[Record, Tensors]:
    """The truck on a network of one convolution, from the minimum-norm solution: (16), and (11) in
    two ways.
    """
    attacked = Attacked.of(sizes.constrained, context.pool)
    images = Victims.of(context.pool)
    truth = images.x[:1]
    network = replace(attacked.network, activation=Activation(activation))
    gradient = Gradient.each(network, attacked.theta, truth, images.labels[:1])
    single = gradient.to(torch.float32)
    layer = next(layer_by_layer(gradient))
    steps, alpha, beta, _ = HYBRID[0]
    began = time.process_time()
    problem = HardConstraint.of(GradientMatching(single, steps, alpha=alpha, beta=beta), layer)
    kernel_seconds = time.process_time() - began

    began = time.process_time()
    soft = by_hybrid(single, network.shape, HybridSettings(sizes.share)).images
    soft = soft.flatten().double()
    seconds = time.process_time() - began

    def error(x: Tensor) -> float:
        return (x - truth.flatten()).square().mean().item()

    def solver(course: Course, steps: int, before: float = 0.0) -> Record:
        """What it ends with; `before` are seconds that it took to begin."""
        until = next((k for k, (x, _) in enumerate(course) if error(x) <= error(soft)), None)
        last, spent = course[-1]
        return Record(
            steps=steps,
            violation=problem.violation(last),
            mse=error(last),
            seconds=round(spent + before, 2),
            until=until,
            reached=None if until is None else round(course[until][1] + before, 2),
        )

    as_given = minimised(problem, sizes.as_given, as_given=True)
    in_kernel = minimised(problem, sizes.in_kernel)
    metrics = Record(
        start_mse=error(problem.start),
        kernel_seconds=round(kernel_seconds, 2),
        soft=solver([(soft, seconds)], max(1, round(sizes.share * steps))),
        as_given=solver(as_given, len(as_given) - 1),
        in_kernel=solver(in_kernel, len(in_kernel) - 1, kernel_seconds),
    )
    arrays = {"truth": truth[0], "start": problem.start, "soft": soft}
    arrays |= {"as given": as_given[-1][0], "in the kernel": in_kernel[-1][0]}
    return metrics, {name: pixels(x.view_as(truth)) for name, x in arrays.items()}


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
        conv = network.convs[layer.layer - 1]
        shape = network.image_shapes()[layer.layer - 1]
        weight = matching.gradient.theta[f"w{layer.layer}"].double()
        system = torch.from_numpy(system_of(conv, weight, layer.delta[0], shape).dense())
        seen = row_space(system)
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
    constraints = [LinearConstraint(problem.system.numpy(), 0.0, 0.0)] if as_given else []
    began = time.process_time()
    lowest = problem.value_and_grad(problem.start)[0]
    best = problem.start
    course = [(best, 0.0)]
    if not steps:
        return course

    def value(c: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, lowest
        x = problem.start + basis @ torch.from_numpy(c)
        energy, grad = problem.value_and_grad(x)
        if energy < lowest:
            best = x
            lowest = energy
        return energy, (basis.mT @ grad).numpy()

    def note(*_: object) -> None:
        course.append((best, time.process_time() - began))

    with warnings.catch_warnings():
        # of a step so short that float32 sees no change of the gradient, and of rows of U that
        # others imply
        warnings.simplefilter("ignore", UserWarning)
        minimize(
            value,
            np.zeros(basis.shape[1]),
            jac=True,
            method="trust-constr",
            constraints=constraints,
            callback=note,
            options={"maxiter": steps, "gtol": 0.0, "xtol": 0.0},
        )
    return course


def trained(name: str, sizes: Sizes, context: Context) -> Record:
    """Norms of the gradients of three groups of images, and ranks, before and after training."""
    network = TABLE_1[name]
    pool = context.pool
    rows = rows_to_train_on(pool)
    held_out = np.arange(len(rows)) % HELD_OUT == 0

    def images(rows: np.ndarray) -> tuple[Tensor, Tensor]:
        return inputs(pool, rows).float(), torch.from_numpy(pool.labels[rows])

    before = network.init(torch.Generator().manual_seed(SEED))
    generator = torch.Generator().manual_seed(SEED)
    after = pretrain(network, before, *images(rows[~held_out]), sizes.epochs, generator)
    victims = Victims.of_all_classes(pool, sizes.images)
    others = ~np.isin(victims.index, pool.index[rows])
    groups = {
        "seen": images(rows[~held_out][: sizes.images]),
        "unseen": images(rows[held_out][: sizes.images]),
        "other": (victims.x[others].float(), victims.labels[others]),
    }
    return Record(
        {
            group: Record(
                before=norms(network.gradients(before, *group_images)),
                after=norms(network.gradients(after, *group_images)),
            )
            for group, group_images in groups.items()
        },
        ranks=ranks(network, before, pool) + ranks(network, after, pool),
    )


def ranks(network: ConvNet, theta: Params, pool: ImagePool) -> list[list[int]]:
    """Rank deficiency of every layer's system, for each of the paper's images. K is taken as large
    as W: that changes no rank, and a trained network's gradient is small.
    """
    victims = Victims.of(pool)
    double = {name: part.double() for name, part in theta.items()}
    return [
        [
            rank_deficiency(replace(u, k=u.k * (norm(u.w) / norm(u.k))))
            for u in systems(network, double, x[None], label[None])
        ]
        for x, label in zip(victims.x, victims.labels, strict=True)
    ]


def norms(gradients: Params) -> list[float]:
    """Norm of each image's whole gradient."""
    return torch.cat([part.flatten(1) for part in gradients.values()], 1).norm(dim=1).tolist()
