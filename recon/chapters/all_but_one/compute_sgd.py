"""Chapter 20: which of a few candidates was trained on, by every step of DP-SGD, and by its last weights alone."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from torch import Tensor

from recon.analysis.privacy_bounds import (
    advantage,
    advantage_bound,
    epsilon,
    interval,
    orthogonal_success,
    sampled_success_bound,
    success_bound,
)
from recon.attacks.prior_aware import PriorAware
from recon.chapters.all_but_one.metrics import Noise, SgdMetrics
from recon.chapters.all_but_one.sizes import SgdSizes
from recon.chapters.base import Context, Outcome, Tensors
from recon.images.partitions import Dataset, Partition
from recon.nets.mlp import MLP
from recon.optim.streams import named
from recon.optim.subspace import Subspace, reduced
from recon.training.private import PrivateDescent, private_descent

SURE = 0.95
FOLDS = 5
DRAWS = 10_000  # of the Monte Carlo in their code


def compute_sgd(sizes: SgdSizes, context: Context) -> Outcome[SgdMetrics]:
    """Every σ by itself, in batches of runs."""
    units = [f"{noise:g}--{first}" for noise in sizes.noises for first in range(0, sizes.runs, sizes.at_once)]
    found = context.sweep(partial(one_batch, sizes, context), units, "sgd")
    noises: list[Noise] = []
    arrays: Tensors = {}
    for noise in sizes.noises:
        parts = [found[unit] for unit in units if unit.startswith(f"{noise:g}--")]
        joint = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        noises.append(judged(noise, joint, sizes, context))
        arrays |= {f"probability {noise:g}": joint["probability"], f"target {noise:g}": joint["target"]}
    data, candidates = images(sizes, context)
    labels = data.held_out.labels
    metrics = SgdMetrics(
        n_train=len(data.train),
        kappa=1 / sizes.candidates,
        runs=sizes.runs,
        noises=noises,
        majority=(labels.bincount().max() / len(labels)).item(),
    )
    return Outcome(metrics, arrays | {"candidates": candidates.flat})


def images(sizes: SgdSizes, context: Context) -> tuple[Dataset, Partition]:
    """Training images, the first of which is left out for a candidate, and the candidates: other images."""
    data = context.dataset(sizes.n_train)
    chosen = torch.linspace(0, len(data.init) - 1, sizes.candidates).round().long()
    return data, Partition(*(part[chosen] for part in (data.init.x, data.init.y, data.init.index, data.init.labels)))


def one_batch(sizes: SgdSizes, context: Context, unit: str) -> Tensors:
    """Some runs at one σ, computed in the span of the images: noise outside of it reaches no output and no gradient
    there, and the candidates' gradients have nothing outside."""
    noise, first = unit.split("--")
    data, candidates = images(sizes, context)
    x, own = (2 * part.flat - 1 for part in (data.train, candidates))
    space = Subspace.spanned_by(x[1:], own)
    full = MLP((x.shape[1], sizes.width, max(2, len(data.class_names))))
    generator = named(context.seed, f"informed.sgd {unit}")
    runs = min(sizes.at_once, sizes.runs - int(first))
    start = full.flatten(full.init(named(context.seed, "informed.sgd start")))
    small, theta = reduced(full, start, space)
    settings = PrivateDescent(sizes.steps, sizes.lr, sizes.clip, float(noise))
    known, offered = (space.reduce(x[1:]), data.train.labels[1:]), (space.reduce(own), candidates.labels)
    watch = PriorAware(small, known, offered, settings, runs)
    target = (torch.arange(runs) + int(first)) % sizes.candidates
    mine = (offered[0][target], offered[1][target])
    theta = private_descent(small, theta.repeat(runs, 1), known, mine, settings, generator, watch)
    likeness = watch.likeness / watch.length.sqrt()[:, None] / watch.length.sqrt()[..., None]
    return {
        "target": target,
        "probability": watch.probability,
        "by_products": watch.evidence + watch.length * settings.steps / (2 * settings.noise**2),
        "losses": losses(small, theta, *offered),
        "length": watch.length.mean(1),
        "cosine": (likeness.sum((1, 2)) - sizes.candidates) / (sizes.candidates * (sizes.candidates - 1)),
        "accuracy": accuracy(small, theta, space.reduce(2 * data.held_out.flat - 1), data.held_out.labels),
    }


def losses(network: MLP, theta: Tensor, x: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of every candidate at the last weights, (S, k)."""
    out = network(network.unflatten(theta), x)
    return F.cross_entropy(out.flatten(0, 1), labels.repeat(len(theta)), reduction="none").view(len(theta), -1)


def accuracy(network: MLP, theta: Tensor, x: Tensor, labels: Tensor) -> Tensor:
    """(S,), on other images; what of them is outside the span meets only noise, which is left out."""
    return (network(network.unflatten(theta), x).argmax(-1) == labels).float().mean(-1)


def by_last_weights(found: Tensors, folds: int) -> Tensor:
    """Candidates (S,) that somebody names who sees the last weights alone, and has practised on runs of their own with
    every candidate: linear discriminants of the candidates' losses, fitted to the other runs."""
    model = LinearDiscriminantAnalysis()
    split = StratifiedKFold(folds, shuffle=True, random_state=0)
    named_ones = cross_val_predict(model, found["losses"].double().numpy(), found["target"].numpy(), cv=split)
    return torch.from_numpy(named_ones)


def judged(noise: float, found: Tensors, sizes: SgdSizes, context: Context) -> Noise:
    """One σ, over all runs."""
    target, probability = found["target"], found["probability"].double()
    runs, kappa, steps = len(target), 1 / sizes.candidates, sizes.steps
    surest = probability.max(1)
    right = surest.indices == target
    final = int((by_last_weights(found, min(FOLDS, runs // sizes.candidates)) == target).sum())
    (low, high), (final_low, final_high) = interval(int(right.sum()), runs), interval(final, runs)
    generator = named(context.seed, f"informed.sgd bound {noise:g}")
    return Noise(
        noise=noise,
        epsilon=epsilon(noise, steps),
        right=int(right.sum()),
        low=low,
        high=high,
        by_products=int((found["by_products"].argmax(1) == target).sum()),
        final=final,
        final_low=final_low,
        final_high=final_high,
        expected=surest.values.mean().item(),
        sure=int((surest.values >= SURE).sum()),
        sure_right=int((right & (surest.values >= SURE)).sum()),
        bound=success_bound(kappa, steps, noise),
        sampled_bound=sampled_success_bound(kappa, steps, noise, 1.0, DRAWS, generator),
        orthogonal=orthogonal_success(sizes.candidates, steps, noise),
        advantage=advantage(right.double().mean().item(), kappa),
        advantage_bound=advantage_bound(kappa, steps, noise),
        length=found["length"].mean().item(),
        cosine=found["cosine"].mean().item(),
        accuracy=found["accuracy"].mean().item(),
    )
