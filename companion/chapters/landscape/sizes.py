"""How large chapter 5 is: what both experiments share, and what each has of its own."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.haim_recipe import STEPS
from recon.attacks.recover import RecoverSettings


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """§4.5, eq. (10). n_train: images per seed · seeds: each with images, noise and network of its own · steps,
    step_size, momentum, tol: of the bilevel descent, as in chapter 3 · pairs, points: segments between end points, and
    points on each · line_points: on the lines from the truth · lambdas: λ₁ and λ₂."""

    n_train: int
    seeds: int
    steps: int
    pairs: int = 40
    points: int = 11
    line_points: int = 101
    weight_decay: float = 1e-2
    step_size: float = 0.3
    momentum: float = 0.5
    tol: float = 1e-8
    lambdas: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, kw_only=True)
class BilevelSizes(Sizes):
    """fine, fine_steps: points per axis of the fine map · walk_n, walk_points, walk_steps: images of the walk between
    training sets, frames of each of its legs (odd), of the attack that makes its ends without bounds."""

    walk_n: int
    walk_points: int
    walk_steps: int = 1500
    fine: int = 21
    fine_steps: int = 600


@dataclass(frozen=True, kw_only=True)
class DecorecoSizes(Sizes):
    """width, train_steps: of the three-layer net · descent_steps, descent_momentum: of the descent in all pixels ·
    attack: ours, whose layer_weights all searches use · recipe_steps, trial_steps: of the reference recipe, and to
    choose its step size · at_once: starts in one batch · check_steps: of Adam, which judge whether a search had ended.
    """

    width: int
    train_steps: int
    descent_steps: int
    attack: RecoverSettings
    recipe_steps: int
    rounded: bool = False
    scaled: bool = False
    trial_steps: int = 50
    at_once: int = 25
    check_steps: int = 100
    descent_momentum: float = 0.9


@dataclass(frozen=True, kw_only=True)
class RecipeSizes(Sizes):
    """width: of the three-layer net · steps: of the bilevel attack; recipe_steps: of the published recipe · cells:
    (λ₁, λ₂) of its starts · rounded: whether it multiplies bfloat16 operands, see `companion.chapters.rounded` ·
    scaled: whether its steps are m / 1000 of those published for m = 1000, see `recon.attacks.haim_recipe`."""

    width: int
    recipe_steps: int
    rounded: bool = False
    scaled: bool = False
    #: Fig. 11's line, the corners of Fig. 10b among it; the neighbours of (1, 1); and the end of Fig. 12's line
    cells: tuple[tuple[float, float], ...] = ((1, 1), (0, 1), (0.25, 1), (0.5, 1), (0.75, 1), (1, 0.75), (1, 0))


ALL = (1.0, 1.0, 1.0)  # layers: all count, as in the setting of Haim et al.

BILEVEL_SIZES = {
    "smoke": BilevelSizes(
        n_train=10,
        seeds=2,
        steps=100,
        walk_n=40,
        walk_points=5,
        walk_steps=100,
        fine=5,
        fine_steps=30,
        pairs=4,
        points=5,
        line_points=11,
    ),
    "laptop": BilevelSizes(n_train=40, seeds=1, steps=1500, walk_n=100, walk_points=13, fine=15),
    "paper": BilevelSizes(n_train=100, seeds=1, steps=8000, walk_n=500, walk_points=41),
}

DECORECO_SIZES = {
    "smoke": DecorecoSizes(
        n_train=10,
        seeds=1,
        steps=100,
        width=32,
        train_steps=100,
        descent_steps=30,
        attack=RecoverSettings(m=10, restarts=1, steps=60, scale_steps=20, layer_weights=ALL),
        recipe_steps=60,
        trial_steps=10,
        check_steps=20,
        pairs=4,
        points=5,
        line_points=11,
    ),
    "laptop": DecorecoSizes(
        n_train=20,
        seeds=1,
        steps=1500,
        width=300,
        train_steps=600,
        descent_steps=300,
        attack=RecoverSettings(m=20, restarts=1, steps=400, layer_weights=ALL),
        recipe_steps=200,
        check_steps=50,
        pairs=10,
        line_points=31,
    ),
    "paper": DecorecoSizes(
        n_train=100,
        seeds=1,
        steps=4000,
        width=1000,
        train_steps=1500,
        descent_steps=1000,
        attack=RecoverSettings(m=100, restarts=1, steps=2000, layer_weights=ALL),
        recipe_steps=1000,
        at_once=3,
        pairs=20,
        points=7,
        line_points=41,
    ),
}

RECIPE_SIZES = {
    "smoke": RecipeSizes(
        n_train=10, seeds=1, steps=100, pairs=2, points=3, line_points=5, width=32, recipe_steps=60, scaled=True
    ),
    "laptop": RecipeSizes(
        n_train=20, seeds=1, steps=1500, pairs=2, points=3, line_points=5, width=300, recipe_steps=500, scaled=True
    ),
    "paper": RecipeSizes(
        n_train=100,
        seeds=1,
        steps=4000,
        pairs=2,
        points=3,
        line_points=5,
        width=1000,
        recipe_steps=STEPS,
        scaled=True,
    ),
}
