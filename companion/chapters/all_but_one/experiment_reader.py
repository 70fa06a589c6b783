"""Appendix H: the last image of a small network: read off its weights after practice, or solved for by retraining."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from companion.chapters.all_but_one.reconstructor import ReaderSettings, linear_reader, network_reader
from companion.chapters.all_but_one.shadows import AllButOne, Recipe
from companion.chapters.base import Context, Outcome
from companion.store.record import Record
from recon.attacks.training_inversion import invert_training
from recon.images.digits import load_digits
from recon.nets.mlp import MLP
from recon.optim.rng import named
from recon.scoring.metrics import mse


class Metrics(Record):
    """n_train: of every network · network, linear: the reconstructor and ridge regression · nearest_known,
    nearest_prior, class_mean, mean: mse of what costs nothing: nearest known image, nearest image of the shadow
    networks, mean of the known images of its class, mean of all · accuracy: of the networks ·
    inversions: one a victim that is attacked by retraining.

    network: One way to the image, over the victims: mean squared and mean absolute error of pixels in [0, 1];
    other: mean squared error against another victim's image, where the attack found nothing of this one.
    inversions: One victim attacked by retraining, from weights in float64 and in float32: mse · label_right ·
    residual: ‖θ(x̂) − θ*‖/‖θ*‖ · steps taken; start: mse of where it began; wrong: residual where one known image
    is another.
    """


@dataclass(frozen=True, kw_only=True)
class ReaderSizes:
    """On scikit-learn's digits whatever the pool.  n_known: images that every network shares · shadows: networks to
    practise on · victims: networks under attack · width: of the networks · recipe · reader: of the reconstructor ·
    inverted: victims that are attacked by retraining."""

    n_known: int = 100
    shadows: int = 2000
    victims: int = 200
    width: int = 10
    recipe: Recipe = Recipe()
    reader: ReaderSettings = ReaderSettings(width=500, epochs=50)
    inverted: int = 4


SIZES = {
    "smoke": ReaderSizes(
        n_known=30,
        shadows=80,
        victims=20,
        recipe=Recipe(steps=20),
        reader=ReaderSettings(width=32, epochs=5),
        inverted=1,
    ),
    "laptop": ReaderSizes(),
    "paper": ReaderSizes(n_known=300, shadows=10_000, reader=ReaderSettings(width=500, epochs=60), inverted=6),
}


SMOOTHING = 1.0  # softplus for their ELU: as smooth, and a network of this package
SHOWN = 8
TURN, ZOOM, SHIFT, SHEAR = 0.25, 0.15, 0.175, 0.2  # at most: radians, share, half widths


@dataclass(frozen=True)
class Digits:
    """known, victims, practice: images (n, 64) in [0, 1] and labels, no image in two of them."""

    known: tuple[Tensor, Tensor]
    victims: tuple[Tensor, Tensor]
    practice: tuple[Tensor, Tensor]

    @staticmethod
    def of(sizes: ReaderSizes, seed: int) -> Digits:
        """Drawn by the seed.  Where there are fewer images than shadow networks, the rest are copies that are turned,
        zoomed, moved and sheared a little."""
        pool = load_digits()
        x, y = pool.pixels(np.arange(len(pool))).flatten(1), torch.from_numpy(pool.labels)
        generator = named(seed, "informed.reader images")
        order = torch.randperm(len(x), generator=generator)
        cuts = (sizes.n_known, sizes.victims, len(x) - sizes.n_known - sizes.victims)
        known, victims, rest = ((x[rows], y[rows]) for rows in order.split(cuts))
        more = torch.randint(len(rest[0]), (max(sizes.shadows - len(rest[0]), 0),), generator=generator)
        copies = varied(rest[0][more], generator) if len(more) else rest[0][:0]
        images = torch.cat([rest[0][: sizes.shadows], copies])
        return Digits(known, victims, (images, torch.cat([rest[1][: sizes.shadows], rest[1][more]])))


def varied(x: Tensor, generator: torch.Generator) -> Tensor:
    """Images (n, 64), each turned, zoomed, moved and sheared by a random amount."""
    turn, zoom, right, down, shear = (2 * torch.rand(5, len(x), generator=generator) - 1).unbind()
    cos, sin = (TURN * turn).cos() * (1 + ZOOM * zoom), (TURN * turn).sin() * (1 + ZOOM * zoom)
    rows = [torch.stack([cos, SHEAR * shear - sin, SHIFT * right], 1), torch.stack([sin, cos, SHIFT * down], 1)]
    grid = F.affine_grid(torch.stack(rows, 1), [len(x), 1, 8, 8], align_corners=False)
    return F.grid_sample(x.view(-1, 1, 8, 8), grid, align_corners=False).flatten(1)


def compute(sizes: ReaderSizes, context: Context) -> Outcome[Metrics]:
    """Shadow networks, both readers, and what costs nothing; then the same victims by retraining."""
    digits = Digits.of(sizes, context.seed)
    network = MLP((digits.known[0].shape[1], sizes.width, 10), smoothing=SMOOTHING)
    start = network.flatten(network.init(named(context.seed, "informed.reader start"), dtype=torch.float64))
    world = AllButOne(network, start.float(), *digits.known, sizes.recipe)
    practice, released = world.train(*digits.practice), world.train(*digits.victims)
    generator = named(context.seed, "informed.reader network")
    by_network = network_reader(practice, digits.practice[0], sizes.reader, generator)
    read = {"network": by_network, "linear": linear_reader(practice, digits.practice[0])}
    found = {name: reader(released).clamp(0, 1) for name, reader in read.items()}
    doubles = AllButOne(network, start, digits.known[0].double(), digits.known[1], sizes.recipe)
    inverted = [inversion(doubles, digits, k) for k in range(sizes.inverted)]
    metrics = Metrics(
        n_train=sizes.n_known + 1,
        shadows=sizes.shadows,
        network=reading(found["network"], digits.victims[0]),
        linear=reading(found["linear"], digits.victims[0]),
        **costs_nothing(digits),
        accuracy=accuracy(network, released, digits.practice),
        inversions=[each for each, _ in inverted],
    )
    arrays = {name: x_hat[:SHOWN] for name, x_hat in found.items()} | {"truth": digits.victims[0][:SHOWN]}
    rows = torch.cdist(digits.victims[0][:SHOWN], digits.known[0]).argmin(1)
    arrays |= {"inverted": torch.stack([x for _, x in inverted]).float(), "known": digits.known[0][rows]}
    return Outcome(metrics, arrays)


def reading(x_hat: Tensor, x: Tensor) -> Record:
    """Against the victims' images, and against each other's."""
    return Record(
        mse=mse(x_hat, x).mean().item(),
        mae=(x_hat - x).abs().mean().item(),
        other=mse(x_hat, x.roll(1, 0)).mean().item(),
    )


def costs_nothing(digits: Digits) -> dict[str, float]:
    """Mean squared errors of what needs no weights; the nearest ones are chosen by whoever knows the answer."""
    (known, labels), (x, y) = digits.known, digits.victims
    classes = torch.stack([known[labels == c].mean(0) if (labels == c).any() else known.mean(0) for c in range(10)])
    return {
        "nearest_known": mse(known[torch.cdist(x, known).argmin(1)], x).mean().item(),
        "nearest_prior": mse(digits.practice[0][torch.cdist(x, digits.practice[0]).argmin(1)], x).mean().item(),
        "class_mean": mse(classes[y], x).mean().item(),
        "mean": mse(known.mean(0).expand_as(x), x).mean().item(),
    }


def accuracy(network: MLP, theta: Tensor, others: tuple[Tensor, Tensor]) -> float:
    """Of the networks (S, p), on images that they were not trained on."""
    out = network(network.unflatten(theta), others[0][:500])
    return (out.argmax(-1) == others[1][:500]).float().mean().item()


def inversion(world: AllButOne, digits: Digits, k: int) -> tuple[Record, Tensor]:
    """The k-th victim by retraining: from exact weights, from float32, and by somebody who is wrong about one image."""
    x, label = digits.victims[0][k].double(), digits.victims[1][k : k + 1]
    theta = world.train(x[None], label)[0]
    guesses = guesses_of(world)
    exact = invert_training(world.train, theta, guesses)
    single = invert_training(world.train, theta.float().double(), guesses)
    wrong = replace(world, x=torch.cat([digits.practice[0][:1].double(), world.x[1:]]))
    lost = invert_training(wrong.train, theta, guesses)
    return Record(
        mse=mse(exact.x_hat[None], x[None]).item(),
        single_mse=mse(single.x_hat[None], x[None]).item(),
        label_right=exact.label == int(label),
        residual=exact.residual,
        steps=len(exact.history) - 1,
        start=mse(guesses[int(label)][None], x[None]).item(),
        wrong=lost.residual,
    ), exact.x_hat


def guesses_of(world: AllButOne) -> Tensor:
    """The mean of the known images of each class (10, d); of all, for a class without one."""
    means = [world.x[world.labels == c] for c in range(world.network.widths[-1])]
    return torch.stack([rows.mean(0) if len(rows) else world.x.mean(0) for rows in means])
