"""What the chapters on DecoReco share of the reference recipe: a network trained as the reference did, and the recipe
run on it with its published step sizes from one of three starts."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from companion.chapters.base import Context, Tensors
from companion.chapters.common import FALL, match_table, nulls_of
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks.decoreco import half_and_half
from recon.attacks.haim_recipe import ALPHA, STEPS, TUNED_SCALE, PublishedSettings, marks, moved, recover_as_published
from recon.attacks.reconstruct import Reconstruction
from recon.attacks.stationarity import stationarity
from recon.images.bundle import Bundle
from recon.images.partitions import centre
from recon.nets.gram import layer_norms
from recon.nets.mlp import MLP
from recon.released import Weights
from recon.scoring.matching import nearest
from recon.scoring.nulls import HELD_OUT, NullTable
from recon.training import kkt

STARTS = {"random": 1.0, "tuned": TUNED_SCALE}  # name -> standard deviation; the third start is "partition"
UNDECIDED = "undecided"  # where a run was stopped before its end


@dataclass(frozen=True, kw_only=True)
class ReferenceSizes:
    """biases: "all" layers have one, as §4.4 may be read, or the "first" only, as in Haim et al.'s code · steps: of
    the recipe, 50,000 in the original · precision: of the products, see `recon.attacks.haim_recipe.products_in`."""

    biases: str = "all"
    steps: int = STEPS
    precision: str = "float32"


class ReferenceNet(Record):
    """A network trained as the reference did.

    n_train, width, biases · train_seconds, train_steps · log_loss: natural logarithm of the training loss ·
    theta_norm: ‖θ*‖ · accuracy: share of held-out images classified rightly · truth_share: by layer, the share of
    ‖θ_l‖² that the training images leave unexplained, with the attack's α and the λ ≥ 0 that fit all layers best.
    """


class Ended(Record):
    """Where results ended: nearest, by NCC, to which set; and how many crossed over to a training image.

    "Crossed over" (moved): nearer to a training image than to any start, and above 0.6.  nulls_moved: as many cross so
    of candidates that cost nothing, and of the results to held-out images; best_null_moved, best_null_moved_name: the
    most, and whose that is · ncc_to: mean NCC to the nearest of a set.
    """


class ReferenceArm(Record):
    """The published recipe from one start, and how far it came; with the fields of `MatchTable` and `Ended`.

    start: "random" (N(0, 1)), "tuned" (8.857e-4 · N(0, 1)) or "partition" (other images) · m: candidates · steps, of
    published_steps · precision: of its products · energy: the lowest, with penalties · energy_by_layer: ‖·‖² there, in
    float64, and energy_share: of ‖θ_l‖², at the start and at the end · moved, moved_least, moved_most: mean and the
    5th and 95th percentile over the candidates of ‖x − x_init‖ / ‖x_init‖ · fell: share by which the energy fell over
    the last tenth of the steps, and layer 1's · moved_last: how much `moved` grew over it · converged: all published
    steps were taken and the energy fell by less than 1 % of itself over their last tenth.  No truth enters.

    `converged` says little: most of that energy is the start of the second layer, which no image explains, so it can
    hardly fall, while layer 1's still does.  No verdict rests on it; see `in_full`.
    """


def train_reference(context: Context, images: Bundle, width: int, biases: str) -> tuple[Weights, ReferenceNet]:
    """Train on `images.train` along the gradient flow, to the reference's final loss."""
    start = time.perf_counter()
    network = MLP((images.dim, width, width, 1), None if biases == "all" else (True, False, False))
    theta_init = network.flatten(network.init(context.stream("kkt.weights"), "small")).to(images.train.device)
    checkpoint = context.checkpoints.at(f"training-reference-{biases}")
    trained = kkt.train_to_kkt(network, images.train, images.y, theta_init, kkt.KKTSettings.gradient_flow(), checkpoint)
    seconds = time.perf_counter() - start
    theta = trained.theta_star
    fitted = kkt.certificate(network, theta, images.train, images.y, alpha=ALPHA)
    said = network(network.unflatten(theta), images.held_out) > 0
    return Weights(network, theta), ReferenceNet(
        n_train=len(images),
        width=width,
        biases=biases,
        train_seconds=round(seconds, 2),
        train_steps=len(trained.history),
        log_loss=trained.log_loss,
        theta_norm=theta.norm().item(),
        accuracy=(said == (images.held_out_y > 0.5)).float().mean().item(),
        truth_share=fitted.residual_by_layer.square().tolist(),
    )


def matches_of(arm: ReferenceArm) -> dict[str, Any]:
    """The fields of `MatchTable` of an arm."""
    names = {"null", "competition", *(each.name for each in fields(NullTable))}
    return {k: value for k, value in arm.items() if k in names or k.endswith(("top10_ncc", "_ncc_0.6"))}


def ended_of(arm: ReferenceArm) -> dict[str, Any]:
    """The fields of `Ended` of an arm."""
    starts = ("nearest_is_", "moved_to_", "nulls_moved", "best_null_moved", "ncc_to_")
    return {name: value for name, value in arm.items() if name.startswith(starts)}


def run_arm(
    context: Context, images: Bundle, weights: Weights, sizes: ReferenceSizes, start: str
) -> tuple[ReferenceArm, Tensors]:
    """The published recipe from `start`, and its arrays: x_hat (m, d), x_init (m, d), trace and its steps."""
    x_init = start_images(context, images) if start == "partition" else None
    settings = PublishedSettings(2 * len(images), sizes.steps, STARTS.get(start, 0.0), sizes.precision)
    began = time.perf_counter()
    checkpoint = context.checkpoints.at(f"published-{start}-{sizes.biases}-{sizes.precision}")
    found = recover_as_published(weights, settings, context.stream("kkt.attack"), checkpoint, x_init)
    seconds = time.perf_counter() - began
    x_hat, trace = found.x_hat[0], found.accepted["trace"]
    nulls = nulls_of(context, images, weights.network, weights.theta_star, len(x_hat))
    x_init = found.accepted["x_init"][0]
    table = flat(match_table(x_hat, images, nulls)) | flat(where_ended(x_hat, x_init, images, nulls))
    arm = arm_of(found, weights, sizes, start, table, seconds)
    arrays = {"x_hat": x_hat, "x_init": x_init, "trace": trace}
    return arm, {**arrays, "trace_steps": torch.tensor(marks(sizes.steps))}


def arm_of(
    found: Reconstruction, weights: Weights, sizes: ReferenceSizes, start: str, table: dict[str, Any], seconds: float
) -> ReferenceArm:
    """All that is said of an arm; table: the fields of its matches, and of where it ended."""
    x_hat, x_init, trace = found.x_hat[0], found.accepted["x_init"][0], found.accepted["trace"].double()
    far = moved(x_hat, x_init).double()
    by_layer, share = shares(weights, x_hat, found.accepted["multipliers"][0])
    lower = found.history[:, 0].double()
    at_nine_tenths = row_before(trace, marks(sizes.steps), 0.9 * sizes.steps)
    fell = 1 - (lower[-1] / lower[int(0.9 * len(lower)) - 1]).item()
    return ReferenceArm(
        **table,
        start=start,
        m=len(x_hat),
        steps=found.steps,
        published_steps=STEPS,
        precision=sizes.precision,
        recon_seconds=round(seconds, 2),
        energy=found.energy.item(),
        energy_by_layer=by_layer,
        start_share=(trace[0, : len(share)] / layer_norms(weights.network, weights.params).double()).tolist(),
        energy_share=share,
        moved=far.mean().item(),
        moved_least=far.quantile(0.05).item(),
        moved_most=far.quantile(0.95).item(),
        fell=fell,
        fell_layer_1=1 - (trace[-1, 0] / at_nine_tenths[0]).item(),
        moved_last=(trace[-1, -1] - at_nine_tenths[-1]).item(),
        converged=found.steps >= STEPS and fell < FALL,
    )


def where_ended(x_hat: Tensor, x_init: Tensor, images: Bundle, nulls: dict[str, Tensor]) -> Ended:
    """Of results x_hat (m, d), and row by row where each began, x_init (m, d)."""
    to_any = nearest(x_hat, torch.cat([x_init, images.train]), "ncc").index
    to_init, to_train = nearest(x_hat, x_init, "ncc"), nearest(x_hat, images.train, "ncc")
    to_held_out = nearest(x_hat, images.held_out, "ncc")

    def moved(x: Tensor) -> int:
        near, start = nearest(x, images.train, "ncc").score, nearest(x, x_init, "ncc").score
        return int(((near > start) & (near > 0.6)).sum())

    held_out = int(((to_held_out.score > to_init.score) & (to_held_out.score > 0.6)).sum())
    nulls_moved = {**{name: moved(x) for name, x in nulls.items()}, HELD_OUT: held_out}
    best = max(nulls_moved, key=lambda name: nulls_moved[name])
    return Ended(
        nearest_is_own_start=int((to_any == torch.arange(len(x_hat), device=to_any.device)).sum()),
        nearest_is_start_partition=int((to_init.score > to_train.score).sum()),
        moved_to_training=moved(x_hat),
        moved_to_held_out=held_out,
        nulls_moved=nulls_moved,
        best_null_moved=nulls_moved[best],
        best_null_moved_name=best,
        ncc_to_start_partition=to_init.score.mean().item(),
        ncc_to_training=to_train.score.mean().item(),
        ncc_to_held_out=to_held_out.score.mean().item(),
    )


def row_before(trace: Tensor, at: tuple[int, ...], step: float) -> Tensor:
    """The row (L + 2,) of the last mark not after `step`."""
    return trace[max(k for k, mark in enumerate(at) if mark <= max(step, at[0]))]


def shares(weights: Weights, x: Tensor, multipliers: Tensor) -> tuple[list[float], list[float]]:
    """Of candidates x (m, d), −1 labels first, with λ (m,): ‖θ_l − (1/m) Σ λ_i y_i ∇_l Φ(x_i)‖² in float64, by layer,
    and the same as a share of ‖θ_l‖²."""
    exact, m = weights.to(dtype=torch.float64), len(x)
    c = multipliers.double() * half_and_half(m, x.device, torch.float64) / m
    by_layer = stationarity(exact, x.double(), c, alpha=ALPHA).by_layer
    return by_layer.tolist(), (by_layer / layer_norms(exact.network, exact.params)).tolist()


def start_images(context: Context, images: Bundle) -> Tensor:
    """Twice as many images as trained on, of the start partition, centred like the training images, −1 labels first:
    those of `images.init`, then further ones that are neither trained on nor held out; fewer where the pool ends."""
    pool, taken = context.pool, torch.cat([images.train_index, images.held_out_index, images.init_index])
    spare = ~torch.isin(torch.from_numpy(pool.index), taken.cpu()) & torch.from_numpy(pool.part == "init")
    found, most = [], len(images)
    for label in (0, 1):
        rows = (spare & torch.from_numpy(pool.y == label)).nonzero()[:, 0]
        more = pool.pixels(rows.numpy()).flatten(1).to(images.mean)
        found.append(torch.cat([images.init[images.init_y == label], centre(more, images.mean)])[:most])
    m = min(map(len, found))
    return torch.cat([part[:m] for part in found])


def in_full(arm: ReferenceArm) -> bool:
    """Whether all published steps were taken: the paper's whole budget, and so the recipe that its sentences are about.
    Not whether it had converged: layer 1's energy may still fall."""
    return arm.steps >= arm.published_steps


def if_in_full(arm: ReferenceArm, found: str) -> str:
    """The verdict that a sentence on the recipe gets from a run of its full budget, and from no other."""
    return found if in_full(arm) else UNDECIDED


def came_text(arm: ReferenceArm) -> str:
    """How far an arm came, in words."""
    if in_full(arm):
        said = f"all {arm.steps:,} published steps, the full budget; {falling_text(arm)}"
    else:
        said = f"{arm.steps:,} of {arm.published_steps:,} steps: undecided; layer 1"
    left = f"at {arm.energy_share[0]:.1%} of its squared norm"
    return f"{said} {left}, images moved by {distance_text(arm.moved)}"


def falling_text(arm: ReferenceArm) -> str:
    """By how much layer 1's energy fell at the end, in words."""
    fell = arm.fell_layer_1
    how = "still falling by" if fell >= FALL else "fell by" if fell >= 0 else "rose by"
    return f"layer 1 {how} {abs(fell):.1%} over the last tenth,"


def distance_text(moved: float) -> str:
    """A distance relative to the size of the start, in words: of a start that was small it is many times that.

    >>> distance_text(0.31), distance_text(90.2)
    ('31%', '90 times their size')
    """
    return f"{moved:.0%}" if moved < 10 else f"{moved:.0f} times their size"
