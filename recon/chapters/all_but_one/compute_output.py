"""Chapter 20: the last image of a private linear regression, against the budget and the number of pixels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from recon.analysis.privacy_bounds import epsilon_of_rho
from recon.attacks.perturbed import ImagePrior, Read, Release, direction, leftover, with_prior
from recon.chapters.all_but_one.metrics import Budget, Nulls, OutputMetrics
from recon.chapters.all_but_one.sizes import OutputSizes
from recon.chapters.base import Context, Outcome, Tensors
from recon.images.photos import at_side
from recon.optim.streams import named
from recon.training.huber import Perturbation, train_huber


@dataclass(frozen=True)
class Images:
    """train, others, held_out: (n, d), every image of norm √d, and their labels in {−1, 1} · mean (d,): what was
    subtracted · scale (n,): the factor that gave a training image its norm · targets (k,): rows that are missing in
    turn."""

    train: Tensor
    others: Tensor
    held_out: Tensor
    y: Tensor
    y_others: Tensor
    y_held_out: Tensor
    mean: Tensor
    scale: Tensor
    targets: Tensor

    @staticmethod
    def of(side: int, sizes: OutputSizes, context: Context) -> Images:
        """Averaged down; the mean that is subtracted is that of other images, which are public."""
        data = context.dataset(sizes.n_train, 2 * (sizes.n_train // 2))
        parts = (data.train, data.init, data.held_out)
        small = [at_side(part.x, side).flatten(1).double() for part in parts]
        mean, size = small[1].mean(0), small[0].shape[1] ** 0.5
        x = [F.normalize(part - mean, dim=1) * size for part in small]
        y = [2 * part.y.double() - 1 for part in parts]
        scale = size / (small[0] - mean).norm(dim=1)
        targets = torch.linspace(0, len(small[0]) - 1, sizes.targets).round().long()
        return Images(x[0], x[1], x[2], y[0], y[1], y[2], mean, scale, targets)

    @property
    def dim(self) -> int:
        """d."""
        return self.train.shape[1]

    def known(self, t: int) -> tuple[Tensor, Tensor]:
        """All but row t."""
        kept = torch.arange(len(self.train)) != t
        return self.train[kept], self.y[kept]

    def blanked(self, t: int) -> tuple[Tensor, Tensor]:
        """All, but the mean image in place of row t: it is 0 here, and leaves nothing in the gradient."""
        x = self.train.clone()
        x[t] = 0
        return x, self.y


def compute_output(sizes: OutputSizes, context: Context) -> Outcome[OutputMetrics]:
    """Every size of image by itself."""
    found = context.sweep(partial(one_side, sizes, context), [f"side-{side}" for side in sizes.sides], "output")
    budgets: list[Budget] = []
    nulls: list[Nulls] = []
    arrays: Tensors = {}
    for side in sizes.sides:
        part, images = found[f"side-{side}"], Images.of(side, sizes, context)
        for k, ratio in enumerate(sizes.budgets):
            budgets.append(budget(ratio, {name: rows[k] for name, rows in part.items() if name != "plain"}, images))
        nulls.append(costs_nothing(images, part["plain"]))
        arrays |= {f"x_hat {side}": restored(part["x_hat"], images), f"truth {side}": truth(images)}
    return Outcome(OutputMetrics(n_train=len(images.train), budgets=budgets, nulls=nulls), arrays)


def one_side(sizes: OutputSizes, context: Context, unit: str) -> Tensors:
    """All budgets and targets: errors (budgets, k), images (budgets, k, d); plain: accuracy without noise."""
    images = Images.of(int(unit.removeprefix("side-")), sizes, context)
    settings = Perturbation(sizes.decay, sizes.clip, radius=images.dim**0.5)
    prior = ImagePrior.of(images.others, images.y_others)
    theta = train_huber(images.train, images.y, settings)
    instead = [train_huber(*images.blanked(int(t)), settings) for t in images.targets]
    rows = []
    for ratio in sizes.budgets:
        noise = settings.noise(len(images.train), ratio * images.dim)
        generator = named(context.seed, f"informed.output {unit} {ratio:g}")
        drawn = noise * torch.randn(2, len(images.targets), images.dim, generator=generator, dtype=torch.float64)
        release = partial(Release, settings=settings, n=len(images.train), noise=noise)
        real = [release(theta + each) for each in drawn[0]]
        placebo = [release(other + each) for other, each in zip(instead, drawn[1], strict=True)]
        rows.append(attacked(images, real, placebo, prior))
    stacked = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    return stacked | {"plain": accuracy(theta, images)}


def attacked(images: Images, real: list[Release], placebo: list[Release], prior: ImagePrior) -> Tensors:
    """One budget: both attacks on every target, and theirs on weights that never saw it."""
    found: dict[str, list[list[float]]] = {"own": [], "free": []}
    seen, chances, accuracies = [], [], []
    for t, mine, other in zip(images.targets.tolist(), real, placebo, strict=True):
        left = leftover(mine, *images.known(t))
        plain, better = direction(mine, left), with_prior(mine, left, prior)
        nothing = direction(other, leftover(other, *images.known(t)))
        found["own"].append(both(plain, images.train[t]) + both(better, images.train[t]))
        found["free"].append(both(nothing, images.train[t]))
        seen.append(better.x_hat)
        chances.append(better.label if images.y[t] > 0 else 1 - (better.label or 0.0))
        accuracies.append(accuracy(mine.theta, images))
    own, free = (torch.tensor(rows, dtype=torch.float64).mT for rows in found.values())
    names = ("error", "predicted", "with_prior", "prior_predicted")
    return {
        **dict(zip(names, own, strict=True)),
        **dict(zip(("placebo", "placebo_predicted"), free, strict=True)),
        "label": torch.tensor(chances, dtype=torch.float64),
        "x_hat": torch.stack(seen),
        "accuracy": torch.stack(accuracies),
    }


def both(found: Read, x: Tensor) -> list[float]:
    """[1 − cos² of the angle with x, what the adversary expects it to be]."""
    return [off(found.x_hat, x), found.error]


def off(x_hat: Tensor, x: Tensor) -> float:
    """1 − cos², the least squared error of any multiple of x̂, relative to ‖x‖²; blind to sign and length."""
    return 1 - F.cosine_similarity(x_hat, x, dim=0).square().item()


def accuracy(theta: Tensor, images: Images) -> Tensor:
    """Share of the held-out images on the right side."""
    return (images.held_out @ theta * images.y_held_out > 0).double().mean()


def budget(ratio: float, found: Tensors, images: Images) -> Budget:
    """As metrics have it."""
    lists = {name: found[name].tolist() for name in found if name not in ("x_hat", "accuracy")}
    rho = ratio * images.dim
    return Budget(
        dim=images.dim,
        ratio=ratio,
        rho=rho,
        epsilon=epsilon_of_rho(rho),
        accuracy=found["accuracy"].mean().item(),
        **lists,
    )


def costs_nothing(images: Images, plain: Tensor) -> Nulls:
    """The nearest by angle: whoever knew which one to take."""
    known, other, mean = [], [], []
    everything = torch.cat([images.others, images.held_out])
    for t in images.targets.tolist():
        x, (rows, labels) = images.train[t], images.known(t)
        known.append(least(x, rows))
        other.append(least(x, everything))
        mean.append(off(rows[labels == images.y[t]].mean(0), x))
    share = (images.y_held_out > 0).double().mean().item()
    return Nulls(
        dim=images.dim,
        nearest_known=known,
        nearest_other=other,
        mean=mean,
        accuracy=plain.item(),
        majority=max(share, 1 - share),
    )


def least(x: Tensor, rows: Tensor) -> float:
    """1 − cos² of x (d,) with the row that is nearest by it."""
    return 1 - F.cosine_similarity(rows, x[None]).square().max().item()


def truth(images: Images) -> Tensor:
    """Targets as they were (k, d), pixels in [0, 1]."""
    t = images.targets
    return (images.train[t] / images.scale[t, None] + images.mean).float()


def restored(x_hat: Tensor, images: Images) -> Tensor:
    """Reconstructions (…, k, d) for the eye: the sign and the length of the true image, plus the mean, as in the
    paper's figures."""
    x = images.train[images.targets]
    sized = F.normalize(x_hat, dim=-1) * x.norm(dim=1, keepdim=True)
    signed = sized * (sized * x).sum(-1, keepdim=True).sign()
    return (signed / images.scale[images.targets, None] + images.mean).clamp(0, 1).float()
