"""What the chapters on DecoReco share of the reference recipe: a network trained as the reference
did, and the recipe run on it with its published step sizes from one of three starts.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from companion.chapters.base import Context, Tensors
from companion.chapters.common import FALL, match_table, nulls_of
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks.decoreco import half_and_half
from recon.attacks.haim_recipe import (
    ALPHA,
    STEPS,
    TUNED_SCALE,
    PublishedSettings,
    displacement,
    marks,
    recover_as_published,
)
from recon.attacks.reconstruct import Reconstruction
from recon.attacks.stationarity import stationarity
from recon.images.bundle import Bundle
from recon.images.partitions import centre
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
    """A network trained as the reference did.

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
    candidates · steps, of published_steps · precision: of its products · start_share, energy_share:
    by layer, what is left unexplained of ‖θ_l‖², at the start and, in float64, at the end · moved:
    mean of ‖x − x_init‖ / ‖x_init‖ · fell_layer_1: share by which layer 1's energy fell over the
    last tenth of the steps. No truth enters.
    """


def train_reference(context: Context, images: Bundle, width: int) -> tuple[Weights, ReferenceNet]:
    """Train a network with biases in all layers on `images.train` along the gradient flow, to the
    reference's final loss.
    """
    network = MLP((images.dim, width, width, 1))
    theta_init = network.flatten(network.init(context.stream("kkt.weights"), "small")).to(
        images.train.device
    )
    checkpoint = context.checkpoints.at("training-reference")
    trained = kkt.train_to_kkt(
        network, images.train, images.y, theta_init, kkt.KKTSettings.gradient_flow(), checkpoint
    )
    theta = trained.theta_star
    fitted = kkt.certificate(network, theta, images.train, images.y, alpha=ALPHA)
    truth_share = fitted.residual_by_layer.square().tolist()
    return Weights(network, theta), ReferenceNet(log_loss=trained.log_loss, truth_share=truth_share)


def run_arm(
    context: Context, images: Bundle, weights: Weights, start: str, sizes: ReferenceSizes
) -> tuple[ReferenceArm, Tensors]:
    """The published recipe from `start`, and its arrays: x_hat (m, d), x_init (m, d), trace and its
    steps.
    """
    x_init = start_images(context, images) if start == "partition" else None
    settings = PublishedSettings(
        2 * len(images), sizes.steps, STARTS.get(start, 0.0), sizes.precision
    )
    checkpoint = context.checkpoints.at(f"published-{start}-{sizes.precision}")
    found = recover_as_published(
        weights, settings, context.stream("kkt.attack"), checkpoint, x_init
    )
    x_hat, x_init, trace = found.x_hat[0], found.accepted["x_init"][0], found.accepted["trace"]
    nulls = nulls_of(context, images, weights.network, weights.theta_star, len(x_hat))
    table = flat(match_table(x_hat, images, nulls)) | flat(where_ended(x_hat, x_init, images))
    arrays = {
        "x_hat": x_hat,
        "x_init": x_init,
        "trace": trace,
        "trace_steps": torch.tensor(marks(sizes.steps)),
    }
    return arm_of(found, weights, sizes, start, table), arrays


def arm_of(
    found: Reconstruction,
    weights: Weights,
    sizes: ReferenceSizes,
    start: str,
    table: dict[str, Any],
    alpha: float = ALPHA,
) -> ReferenceArm:
    """All that is said of an arm;

    Args:
        table: the fields of its matches, and of where it ended.
    """
    x_hat, trace = found.x_hat[0], found.accepted["trace"].double()
    share = shares(weights, x_hat, found.accepted["multipliers"][0], alpha)
    return ReferenceArm(
        **table,
        start=start,
        m=len(x_hat),
        steps=found.steps,
        published_steps=STEPS,
        precision=sizes.precision,
        start_share=(
            trace[0, : len(share)] / layer_norms(weights.network, weights.params).double()
        ).tolist(),
        energy_share=share,
        moved=displacement(x_hat, found.accepted["x_init"][0]).double().mean().item(),
        fell_layer_1=fell_layer_1(trace, sizes.steps).item(),
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
    return Ended(
        nearest_is_own_start=int((to_any == torch.arange(len(x_hat), device=to_any.device)).sum()),
        nearest_is_start_partition=int((to_init > to_train).sum()),
        moved_to_training=int(((to_train > to_init) & (to_train > 0.6)).sum()),
        moved_to_held_out=int(((to_held_out > to_init) & (to_held_out > 0.6)).sum()),
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
    share: list[float] = (by_layer / layer_norms(exact.network, exact.params)).tolist()
    return share


def start_images(context: Context, images: Bundle) -> Tensor:
    """Twice as many images as trained on, of the start partition, centred like the training images,
    −1 labels first: those of `images.init`, then further ones that are neither trained on nor held
    out; fewer where the pool ends.
    """
    pool, taken = (
        context.pool,
        torch.cat([images.train_index, images.held_out_index, images.init_index]),
    )
    spare = ~torch.isin(torch.from_numpy(pool.index), taken.cpu()) & torch.from_numpy(
        pool.part == "init"
    )
    found, most = [], len(images)
    for label in (0, 1):
        rows = (spare & torch.from_numpy(pool.y == label)).nonzero()[:, 0]
        more = pool.pixels(rows.numpy()).flatten(1).to(images.mean)
        found.append(
            torch.cat([images.init[images.init_y == label], centre(more, images.mean)])[:most]
        )
    m = min(map(len, found))
    return torch.cat([part[:m] for part in found])


def in_full(arm: ReferenceArm) -> bool:
    """Whether all published steps were taken: the paper's whole budget, and so the recipe that its
    sentences are about. Not whether it had converged: layer 1's energy may still fall.
    """
    return arm.steps >= arm.published_steps


def if_in_full(arm: ReferenceArm, found: str) -> str:
    """The verdict that a sentence on the recipe gets from a run of its full budget, and from no
    other.
    """
    return found if in_full(arm) else UNDECIDED


def came_text(arm: ReferenceArm) -> str:
    """How far an arm came, in words; how far its images moved, too, is relative to the size of
    their start.
    """
    left, fell, moved = (
        f"at {arm.energy_share[0]:.1%} of its squared norm",
        arm.fell_layer_1,
        arm.moved,
    )
    far = (
        f"images moved by {moved:.0%}"
        if moved < 10
        else f"images moved by {moved:.0f} times their size"
    )
    if not in_full(arm):
        return f"{arm.steps:,} of {arm.published_steps:,} steps: undecided; layer 1 {left}, {far}"
    how = "still falling by" if fell >= FALL else "fell by" if fell >= 0 else "rose by"
    whole = f"all {arm.steps:,} published steps, the full budget"
    whole += (
        ""
        if arm.precision == "float32"
        else f", products in {arm.precision} where the processor has them"
    )
    return f"{whole}; layer 1 {how} {abs(fell):.1%} over the last tenth, {left}, {far}"
