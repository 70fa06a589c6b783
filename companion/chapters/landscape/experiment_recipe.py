"""Chapter 5, Figs. 10b, 11 and 12 by the published recipe: from few of the starts, and with its
full budget.
"""

from dataclasses import dataclass
from functools import partial
from operator import itemgetter

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.landscape.experiment_bilevel import bilevel_run
from companion.chapters.landscape.shared import LAMBDAS, SETS, SIDE, SeedImages, Sizes
from companion.chapters.reference_common import fell_layer_1
from companion.store.record import Record
from recon.analysis.landscape import mixed_starts
from recon.attacks import by_published_recipe
from recon.attacks.haim_recipe import STEPS, PublishedSettings
from recon.nets.mlp import MLP
from recon.released import Weights
from recon.scoring.matching import nearest
from recon.training.kkt import KKTSettings, train_to_kkt


class Metrics(Record):
    """`landscape-recipe`. steps, of published_steps · null_distance_to_truth: of held-out images.

    cells: The published recipe from one start: where it begins and ends, and where the bilevel
    attack ends from there. ncc: mean NCC of what it ends at with the most alike of each set, which
    no norm of an image moves · fell_layer_1: share by which layer 1's energy fell over the last
    tenth of the steps. cells.start: Of a set of images to their neighbours in each set, by SSIM.
    """

    def at(self, lambda1: float, lambda2: float) -> Record:
        """The cell of this start; KeyError where the recipe was not run."""
        return {(cell.lambda1, cell.lambda2): cell for cell in self.cells}[lambda1, lambda2]

    def to_partition(self) -> list[Record]:
        """Those at λ₂ = 1, from the partition to the truth."""
        line = [cell for cell in self.cells if cell.lambda2 == 1]
        return sorted(line, key=itemgetter("lambda1"))


@dataclass(frozen=True, kw_only=True)
class RecipeSizes(Sizes):
    """
    Attributes:
        width: of the three-layer net · steps: of the bilevel attack; recipe_steps: of the published
            recipe, m / 1000 as long as those for m = 1000, see `recon.attacks.haim_recipe`.
        cells: (λ₁, λ₂) of its starts.
    """

    width: int
    recipe_steps: int
    #: Fig. 11's line, the corners of Fig. 10b among it; the neighbours of (1, 1); and the end of
    #: Fig. 12's line
    cells: tuple[tuple[float, float], ...] = (
        (1, 1),
        (0, 1),
        (0.25, 1),
        (0.5, 1),
        (0.75, 1),
        (1, 0.75),
        (1, 0),
    )


SIZES = {
    "smoke": RecipeSizes(n_train=10, steps=100, width=32, recipe_steps=60),
    "laptop": RecipeSizes(n_train=20, steps=1500, width=300, recipe_steps=500),
    "paper": RecipeSizes(n_train=100, steps=4000, width=1000, recipe_steps=STEPS),
}


def compute(sizes: RecipeSizes, context: Context) -> Outcome[Metrics]:
    """One network, and the recipe from each of the starts; the bilevel attack from the same
    ones.
    """
    images = SeedImages.drawn(context, sizes.n_train, torch.float32)
    theta = context.sweep(partial(_net, sizes, context), ["net"], label="network")["net"]["theta"]
    names = [f"cell-{k}" for k in range(len(sizes.cells))]
    runs = context.sweep(partial(_run, sizes, context, theta), [*names, "bilevel"], label="recipe")
    bilevel = runs.pop("bilevel")
    starts = images.starts()
    cells = []
    for run, (lambda1, lambda2) in zip(runs.values(), sizes.cells, strict=True):
        row = LAMBDAS.index(lambda1) * SIDE + LAMBDAS.index(lambda2)
        cells.append(
            Record(
                lambda1=lambda1,
                lambda2=lambda2,
                start=_distances(starts[row], images),
                end=_distances(run["x_hat"], images),
                ncc=_ncc(run["x_hat"], images),
                bilevel={key: bilevel[key][row].item() for key in SETS},
                fell_layer_1=run["fell"].item(),
            )
        )
    metrics = Metrics(
        n_train=len(images),
        steps=sizes.recipe_steps,
        published_steps=STEPS,
        null_distance_to_truth=images.null_distance().item(),
        cells=cells,
    )
    arrays = {key: torch.stack([run[key] for run in runs.values()]) for key in ("x_hat", "trace")}
    return Outcome(metrics, {**arrays, **images.sets()})


def rescored(sizes: RecipeSizes, context: Context, x_hat: Tensor) -> Record:
    """Where the recipe ended, of kept reconstructions (cells, n, d)."""
    images = SeedImages.drawn(context, sizes.n_train, torch.float32)
    ends = x_hat.to(images.train)
    return Record(cells=[Record(end=_distances(x, images), ncc=_ncc(x, images)) for x in ends])


def _net(sizes: RecipeSizes, context: Context, _: str) -> Tensors:
    """Trained on the truth less its mean along the flow, with biases in all layers."""
    images = SeedImages.drawn(context, sizes.n_train, torch.float32)
    network = _network(sizes, images)
    x = images.train - images.train.mean(0)
    theta_init = network.flatten(network.init(context.stream("landscape.weights"), "small")).to(x)
    settings = KKTSettings.gradient_flow()
    return {"theta": train_to_kkt(network, x, images.y, theta_init, settings).theta_star}


def _network(sizes: RecipeSizes, images: SeedImages) -> MLP:
    return MLP((images.dim, sizes.width, sizes.width, 1))


def _run(sizes: RecipeSizes, context: Context, theta: Tensor, name: str) -> Tensors:
    """Where the recipe ends from one start, "cell-K", in pixels, and how far it came; or the
    "bilevel" attack from all of them.
    """
    if name == "bilevel":
        return bilevel_run(SeedImages.drawn(context, sizes.n_train, torch.float64), sizes.steps)
    images = SeedImages.drawn(context, sizes.n_train, torch.float32)
    place = sizes.cells[int(name.removeprefix("cell-"))]
    mean = images.train.mean(0)
    lambdas = (torch.tensor([value]) for value in place)
    start = mixed_starts(*images.sets().values(), *lambdas)[0, 0] - mean
    attack = by_published_recipe(
        Weights(_network(sizes, images), theta),
        images.shape,
        PublishedSettings(len(start), sizes.recipe_steps, scaled=True),
        context.stream("kkt.attack"),
        checkpoint=context.checkpoints.at(f"recipe-{name}"),
        x_init=start,
    )
    trace = attack.diagnostics["trace"]
    return {
        "x_hat": attack.images.flatten(1) + mean,
        "fell": fell_layer_1(trace, sizes.recipe_steps),
        "trace": trace,
    }


def _ncc(x: Tensor, images: SeedImages) -> Record:
    """Mean NCC of images x (n, d) with the most alike of each set, all less the mean of the
    truth.
    """
    mean = images.train.mean(0)
    scores = {key: nearest(x - mean, s - mean, "ncc").score for key, s in images.sets().items()}
    return Record({key: score.mean().item() for key, score in scores.items()})


def _distances(x: Tensor, images: SeedImages) -> Record:
    """Of images x (n, d) in pixels."""
    return Record({key: value.item() for key, value in images.distances(x[None]).items()})
