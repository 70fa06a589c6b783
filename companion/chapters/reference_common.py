"""What the chapters on DecoReco share of the reference recipe: a network trained to a loss as small
as the reference's, and the recipe run on it with its published step sizes from one of three starts.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from companion.chapters.base import Context, Tensors
from companion.chapters.common import FALL, match_table, nulls_of
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks import Candidates, by_published_recipe
from recon.attacks.decoreco import half_and_half
from recon.attacks.haim_recipe import (
    ALPHA,
    STEPS,
    TUNED_SCALE,
    PublishedSettings,
    displacement,
    marks,
)
from recon.attacks.stationarity import stationarity
from recon.images.bundle import Bundle
from recon.nets.gram import layer_norms
from recon.nets.mlp import MLP
from recon.released import Weights
from recon.scoring.matching import nearest
from recon.training import kkt

# name -> standard deviation; the third start is "partition"
STARTS = {"random": 1.0, "tuned": TUNED_SCALE}
UNDECIDED = "undecided"  # where a run was stopped before its end


@dataclass(frozen=True, kw_only=True)
class ReferenceSizes:
    """
    Attributes:
        steps: of the recipe, 50,000 in the original.
        precision: of the products, see `recon.attacks.haim_recipe.matmul_precision`.
    """

    steps: int = STEPS
    precision: str = "float32"


class ReferenceNet(Record):
    """A network trained to a small loss, where the reference takes 10⁶ steps of gradient descent in
    float64, and has a bias in the first layer only.

    log_loss: natural logarithm of the training loss · truth_share: by layer, the share of ‖θ_l‖²
    that the training images leave unexplained, with the attack's α and the λ ≥ 0 that fit all
    layers best.
    """


class Ended(Record):
    """Where results ended: nearest, by NCC, to which set; and how many crossed over to a training
    or held-out image.

    "Crossed over" (moved): nearer to such an image than to any start, and above 0.6 · ncc_to: mean
    NCC to the nearest of a set.
    """


class ReferenceArm(Record):
    """The published recipe from one start, and how far it came; with the fields of `MatchTable` and
    `Ended`.

    start: "random" (N(0, 1)), "tuned" (8.857e-4 · N(0, 1)) or "partition" (other images) · m:
    candidates · steps, of published_steps · precision: of its products · energy_share: by layer,
    what is left unexplained of ‖θ_l‖², in float64, at the end · moved: mean of ‖x − x_init‖ /
    ‖x_init‖ · fell_layer_1: share by which layer 1's energy fell over the last tenth of the steps.
    No truth enters.
    """


def train_reference(context: Context, images: Bundle, width: int) -> tuple[Weights, ReferenceNet]:
    """Train a network with biases in all layers on `images.train` along the gradient flow, in
    float32, to `kkt.FINAL_LOSS`.
    """
    network = MLP((images.dim, width, width, 1))
    theta_init = network.flatten(network.init(context.stream("kkt.weights"), "small")).to(
        images.train.device
    )
    checkpoint = context.checkpoints.at("training-reference")
    trained = kkt.train_to_kkt(
        network,
        images.train,
        images.y,
        theta_init,
        kkt.KKTSettings.gradient_flow(),
        checkpoint,
    )
    theta = trained.theta_star
    fitted = kkt.certificate(network, theta, images.train, images.y, alpha=ALPHA)
    truth_share = fitted.residual_by_layer.square().tolist()
    return Weights(network, theta), ReferenceNet(log_loss=trained.log_loss, truth_share=truth_share)


def run_arm(
    context: Context,
    images: Bundle,
    weights: Weights,
    start: str,
    sizes: ReferenceSizes,
) -> tuple[ReferenceArm, Tensors]:
    """The published recipe from `start`, and its arrays: x_hat (m, d), x_init (m, d), trace and its
    steps.
    """
    x_init = start_images(context, images) if start == "partition" else None
    settings = PublishedSettings(
        2 * len(images),
        sizes.steps,
        STARTS.get(start, 0.0),
        sizes.precision,
    )
    attack = by_published_recipe(
        weights,
        images.shape,
        settings,
        context.stream("kkt.attack"),
        checkpoint=context.checkpoints.at(f"published-{start}-{sizes.precision}"),
        x_init=x_init,
    )
    x_hat, notes = attack.images.flatten(1), attack.diagnostics
    nulls = nulls_of(context, images, weights.network, weights.theta_star, len(x_hat))
    nulls |= {} if x_init is None else {"start_photographs": x_init}
    table = flat(match_table(x_hat, images, nulls))
    table |= flat(where_ended(x_hat, notes["x_init"], images))
    arrays = {
        "x_hat": x_hat,
        "x_init": notes["x_init"],
        "trace": notes["trace"],
        "trace_steps": torch.tensor(marks(sizes.steps)),
    }
    return arm_of(attack, weights, start, table, sizes.precision), arrays


def arm_of(
    attack: Candidates,
    weights: Weights,
    start: str,
    table: dict[str, Any],
    precision: str = "float32",
    alpha: float = ALPHA,
) -> ReferenceArm:
    """How far `by_published_recipe` came.

    Args:
        table: the fields of its matches, and of where it ended.
    """
    x_hat, notes = attack.images.flatten(1), attack.diagnostics
    steps, trace = len(notes["history"]), notes["trace"].double()
    share = shares(weights, x_hat, attack.score, alpha)
    return ReferenceArm(
        **table,
        start=start,
        m=len(x_hat),
        steps=steps,
        published_steps=STEPS,
        precision=precision,
        energy_share=share,
        moved=displacement(x_hat, notes["x_init"]).double().mean().item(),
        fell_layer_1=fell_layer_1(trace, steps).item(),
    )


def fell_layer_1(trace: Tensor, steps: int) -> Tensor:
    """Share () by which layer 1's energy fell over the last tenth of the steps; trace (len(marks),
    L + 2).
    """
    before = max(k for k, mark in enumerate(marks(steps)) if mark <= max(0.9 * steps, 1))
    return 1 - trace[-1, 0] / trace[before, 0]


def where_ended(x_hat: Tensor, x_init: Tensor, images: Bundle) -> Ended:
    """Of results x_hat (m, d), and row by row where each began, x_init (m, d)."""
    to_any = nearest(x_hat, torch.cat([x_init, images.train]), "ncc").index
    to_init, to_train, to_held_out = (
        nearest(x_hat, x, "ncc").score for x in (x_init, images.train, images.held_out)
    )

    def crossed(to: Tensor) -> int:
        return int(((to > to_init) & (to > 0.6)).sum())

    return Ended(
        nearest_is_own_start=int((to_any.cpu() == torch.arange(len(x_hat))).sum()),
        nearest_is_start_partition=int((to_init > to_train).sum()),
        moved_to_training=crossed(to_train),
        moved_to_held_out=crossed(to_held_out),
        ncc_to_start_partition=to_init.mean().item(),
        ncc_to_training=to_train.mean().item(),
        ncc_to_held_out=to_held_out.mean().item(),
    )


def shares(weights: Weights, x: Tensor, multipliers: Tensor, alpha: float = ALPHA) -> list[float]:
    """‖θ_l − (1/m) Σ λ_i y_i ∇_l Φ(x_i)‖² / ‖θ_l‖² by layer, in float64, of candidates x (m, d), −1
    labels first, with λ (m,).
    """
    exact, m = weights.to(dtype=torch.float64), len(x)
    c = multipliers.double() * half_and_half(m, x.device, torch.float64) / m
    by_layer = stationarity(exact, x.double(), c, alpha=alpha).by_layer
    return list((by_layer / layer_norms(exact.network, exact.params)).tolist())


def start_images(context: Context, images: Bundle) -> Tensor:
    """Twice as many images as trained on, of the start partition, centred like the training images,
    −1 labels first: those of `images.init`, then further ones that are neither trained on nor held
    out; fewer where the pool ends.
    """
    pool = context.pool
    taken = torch.cat([images.train_index, images.held_out_index, images.init_index]).cpu()
    spare = (pool.part == "init") & ~np.isin(pool.index, taken)
    parts = []
    for label in (0, 1):
        more = pool.pixels(np.flatnonzero(spare & (pool.y == label))).flatten(1).to(images.mean)
        every = torch.cat([images.init[images.init_y == label], more - images.mean])
        parts.append(every[: len(images)])
    m = min(map(len, parts))
    return torch.cat([part[:m] for part in parts])


def in_full(arm: Record) -> bool:
    """Whether all published steps were taken: Haim et al.'s whole budget, and so the recipe that
    the paper's sentences are about. Not whether it had converged: layer 1's energy may still fall.
    """
    return arm.steps >= arm.published_steps


def if_in_full(arm: Record, verdict: str) -> str:
    """The verdict that a sentence on the recipe gets from a run of its full budget, and from no
    other.
    """
    return verdict if in_full(arm) else UNDECIDED


def came_text(arm: Record) -> str:
    """How far an arm came, in words; how far its images moved, too, is relative to the size of
    their start.
    """
    fell = arm.fell_layer_1
    far = f"{arm.moved:.0%}" if arm.moved < 10 else f"{arm.moved:.0f} times their size"
    end = f"at {arm.energy_share[0]:.1%} of its squared norm, images moved by {far}"
    if not in_full(arm):
        return f"{arm.steps:,} of {arm.published_steps:,} steps: undecided; layer 1 {end}"
    rounded = f", products in {arm.precision} if the processor has them, which is unknown"
    how = "still falling by" if fell >= FALL else "fell by" if fell >= 0 else "rose by"
    return (
        f"all {arm.steps:,} published steps, the full budget"
        f"{'' if arm.precision == 'float32' else rounded}; layer 1 {how} {abs(fell):.1%} over the"
        f" last tenth, {end}"
    )
