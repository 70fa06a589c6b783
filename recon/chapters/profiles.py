"""All sizes and budgets, in one place.  A profile changes these, never the method."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.recover import Settings
from recon.attacks.separation import Settings as Unmixing
from recon.training.recipes import Recipe

PROFILES = ("smoke", "laptop", "paper")


@dataclass(frozen=True)
class Linear:
    """§3.1. n_train: images of the training and of the counterfactual set · iterations: of the projection, at most."""

    n_train: int
    weight_decay: float = 1e-2
    iterations: int = 80
    tol: float = 1e-14


LINEAR = {"smoke": Linear(n_train=40), "laptop": Linear(n_train=500), "paper": Linear(n_train=500)}


@dataclass(frozen=True)
class KKTTraining:
    """Training without weight decay. steps: of both methods, loss-scaled descent and the reference recipe ·
    reference_goal: log of the training loss at which the reference recipe ends (4e-6) · weight_decay: of the
    regression variant, L-BFGS for at most `decay_iterations`."""

    n_train: int
    width: int
    steps: int
    weight_decay: float = 7.5e-4
    decay_iterations: int = 400
    reference_goal: float = -12.43
    reference_step_size: float = 0.01
    reference_epochs: int = 1_000_000


KKT_TRAINING = {
    "smoke": KKTTraining(n_train=20, width=64, steps=150, decay_iterations=200),
    "laptop": KKTTraining(n_train=100, width=1000, steps=1500),
    "paper": KKTTraining(n_train=500, width=1000, steps=6000),
}


@dataclass(frozen=True)
class Separation:
    """Chapter 6: a net trained for `train_steps` into the KKT regime · attack: of the separation · refine, noise:
    DecoReco begun at its result, each source with both signs and labels, in small steps; and at noise · shadow_n,
    harder_n: images in the adversary's own networks, on which certainty is calibrated, and in those, beside the first,
    on which it is assessed; steps grow with them."""

    n_train: int
    width: int
    train_steps: int
    attack: Unmixing
    refine: Settings
    noise: Settings
    shadow_n: tuple[int, ...]
    harder_n: tuple[int, ...]


SEPARATION = {
    "smoke": Separation(
        n_train=20,
        width=64,
        train_steps=150,
        attack=Unmixing(first_rank=8, iterations=40, restarts=2),
        refine=Settings(m=80, restarts=1, steps=60, step_x=2e-3, scale_steps=20, multiplier_scales=(1e-2,)),
        noise=Settings(m=40, restarts=1, steps=60, scale_steps=20, multiplier_scales=(1e-2,)),
        shadow_n=(20, 40),
        harder_n=(40,),
    ),
    "laptop": Separation(
        n_train=100,
        width=1000,
        train_steps=600,
        attack=Unmixing(restarts=4),
        refine=Settings(m=400, restarts=1, steps=150, step_x=2e-3, scale_steps=30),
        noise=Settings(m=200, restarts=1, steps=400, scale_steps=50),
        shadow_n=(100, 200),
        harder_n=(200,),
    ),
    "paper": Separation(
        n_train=500,
        width=1000,
        train_steps=3000,
        attack=Unmixing(growth=1.05, restarts=4),
        refine=Settings(m=2000, restarts=1, steps=300, step_x=2e-3, scale_steps=30),
        noise=Settings(m=1000, restarts=1, steps=1500),
        shadow_n=(200, 500),
        harder_n=(200,),
    ),
}


@dataclass(frozen=True)
class SeparationSize:
    """Chapter 7, the limits: numbers of images and widths of the map, trained for `steps_per_image` times as many steps
    · sides, side_ns: images averaged down to these widths in pixels, at these numbers, with the map's last width ·
    photograph_sides, photograph_n: patches of the bundled photographs, the same scenes at several sizes."""

    ns: tuple[int, ...]
    widths: tuple[int, ...]
    attack: Unmixing
    sides: tuple[int, ...]
    side_ns: tuple[int, ...]
    photograph_sides: tuple[int, ...]
    photograph_n: int
    steps_per_image: int = 6


SEPARATION_SIZE = {
    "smoke": SeparationSize((10, 20), (32, 64), Unmixing(first_rank=8, iterations=40), (16,), (20,), (16, 32), 20),
    "laptop": SeparationSize(
        ns=(20, 50, 100, 150, 200, 300, 500),
        widths=(100, 400, 1000),
        attack=Unmixing(),
        sides=(16,),
        side_ns=(20, 50, 100, 150, 200, 300),
        photograph_sides=(16, 32, 64, 96),
        photograph_n=100,
    ),
    "paper": SeparationSize(
        ns=(20, 50, 100, 150, 200, 300, 400, 500),
        widths=(50, 100, 200, 400, 1000, 2000),
        attack=Unmixing(growth=1.05),
        sides=(8, 16, 24),
        side_ns=(50, 100, 150, 200, 300, 500),
        photograph_sides=(16, 32, 48, 64, 96),
        photograph_n=100,
    ),
}


@dataclass(frozen=True)
class SeparationRecipes:
    """Chapter 7, the recipes: `n_train` images; every cell changes `base`, see the experiment · cells: families of them
    that run, and how many of each · shadow_n: images of the adversary's networks, trained by `base` on the other
    partition."""

    n_train: int
    base: Recipe
    attack: Unmixing
    families: tuple[str, ...]
    shadow_n: tuple[int, ...]
    limit: int | None = None


FAMILIES = ("decay", "start", "stop", "task", "data", "defence", "convolution")
SEPARATION_RECIPES = {
    "smoke": SeparationRecipes(
        20,
        Recipe(width=64, steps=150),
        Unmixing(first_rank=8, iterations=40, restarts=2),
        ("decay", "convolution"),
        (20, 40),
        2,
    ),
    "laptop": SeparationRecipes(100, Recipe(), Unmixing(restarts=2), FAMILIES, (100, 200)),
    "paper": SeparationRecipes(100, Recipe(width=1000), Unmixing(restarts=3), FAMILIES, (100, 200)),
}


@dataclass(frozen=True)
class DecoReco:
    """§4.4: a net trained for `train_steps` into the KKT regime, and the attack's settings."""

    n_train: int
    width: int
    train_steps: int
    attack: Settings


@dataclass(frozen=True)
class DecoRecoUntuned(DecoReco):
    """Figs. 5 and 9: the start is not tuned. reference_steps: of the reference recipe (50,000 in the original)."""

    reference_steps: int = 600


DECORECO_RANDOM = {
    "smoke": DecoRecoUntuned(
        *(20, 64, 150, Settings(m=40, restarts=1, steps=200, scale_steps=40, init_scale=1.0)), reference_steps=100
    ),
    "laptop": DecoRecoUntuned(100, 1000, 600, Settings(m=200, restarts=1, init_scale=1.0)),
    "paper": DecoRecoUntuned(500, 1000, 3000, Settings(m=1000, restarts=1, steps=1500, init_scale=1.0), 50_000),
}
DECORECO_TUNED = {  # Figs. 6–8
    "smoke": DecoReco(20, 64, 150, Settings(m=40, restarts=2, steps=200, scale_steps=40)),
    "laptop": DecoReco(100, 1000, 600, Settings(m=200)),
    "paper": DecoReco(500, 1000, 3000, Settings(m=1000, steps=1500)),
}
DECORECO_PARTITION = {  # Fig. 9: as many candidates as the start partition has images
    "smoke": DecoRecoUntuned(
        *(20, 64, 150, Settings(m=20, restarts=1, steps=200, scale_steps=40)), reference_steps=100
    ),
    "laptop": DecoRecoUntuned(100, 1000, 600, Settings(m=100, restarts=1)),
    "paper": DecoRecoUntuned(500, 1000, 3000, Settings(m=500, restarts=1, steps=1500), 50_000),
}
DECORECO_TRUTH = {  # chapter 11: equal footing
    "smoke": DecoReco(20, 64, 150, Settings(m=40, restarts=1, steps=200, scale_steps=40)),
    "laptop": DecoReco(100, 1000, 600, Settings(m=200, restarts=1)),
    "paper": DecoReco(500, 1000, 3000, Settings(m=1000, restarts=1, steps=1500)),
}


@dataclass(frozen=True)
class DecoRecoSize:
    """Matches against n_train; twice as many candidates as images, everything else as in `DecoReco`."""

    n_trains: tuple[int, ...]
    width: int
    train_steps: int
    attack: Settings


DECORECO_SIZE = {
    "smoke": DecoRecoSize((10, 20), 64, 150, Settings(m=40, restarts=1, steps=200, scale_steps=40)),
    "laptop": DecoRecoSize((20, 50, 100, 200), 1000, 600, Settings(m=200, restarts=2)),
    "paper": DecoRecoSize((20, 50, 100, 200, 500), 1000, 3000, Settings(m=1000, restarts=8, steps=1500)),
}


@dataclass(frozen=True)
class DecoRecoAdversary:
    """Chapter 12: `networks` released nets, each on images of its own, and one shadow net of the adversary's on
    his."""

    n_train: int
    width: int
    train_steps: int
    networks: int
    attack: Settings
    threshold: float = 0.6


DECORECO_ADVERSARY = {
    "smoke": DecoRecoAdversary(20, 64, 150, 2, Settings(m=40, restarts=2, steps=200, scale_steps=40)),
    "laptop": DecoRecoAdversary(100, 500, 600, 3, Settings(m=200, restarts=4)),
    "paper": DecoRecoAdversary(500, 1000, 3000, 3, Settings(m=1000, restarts=4, steps=1500)),
}


@dataclass(frozen=True)
class LeakageRank:
    """Table 1 of Chen & Campbell (2022). networks: names in `recon.nets.conv.TABLE_1`."""

    networks: tuple[str, ...]


SMALL_NETWORKS = ("CNN2 V2", "CNN3 V2", "CNN3 V4")
ALL_NETWORKS = ("CNN2 V1", "CNN2 V2", "CNN3 V1", "CNN3 V2", "CNN3 V3", "CNN3 V4", "CNN4 V1", "CNN4 V2")
PRE_TRAINED = ("CNN4 V1 pre-trained", "CNN4 V2 pre-trained")
LEAKAGE_RANK = {
    "smoke": LeakageRank(("CNN3 V2", "CNN3 V4")),
    "laptop": LeakageRank(ALL_NETWORKS),
    "paper": LeakageRank(ALL_NETWORKS),
}


@dataclass(frozen=True)
class LeakageAttacks:
    """§4 and Appendix E. networks: R-GAP · matched: those with gradient matching as well · share: of the published
    steps of Hybrid and CosineTV · dlg_steps: 300 as published, 0 for none · gallery: R-GAP on one image per class ·
    epochs: of pre-training, 300 as published."""

    networks: tuple[str, ...]
    matched: tuple[str, ...]
    share: float = 1.0
    dlg_steps: int = 300
    gallery: tuple[str, ...] = ("CNN2 V2", "CNN3 V2")
    epochs: int = 300


LEAKAGE_ATTACKS = {
    "smoke": LeakageAttacks(("CNN3 V2", "CNN4 V1 pre-trained"), ("CNN3 V2",), 0.003, 3, ("CNN3 V2",), 1),
    "laptop": LeakageAttacks((*ALL_NETWORKS, *PRE_TRAINED), ("CNN2 V2", "CNN3 V2"), 0.25, 0, epochs=30),
    "paper": LeakageAttacks((*ALL_NETWORKS, *PRE_TRAINED), (*ALL_NETWORKS, *PRE_TRAINED)),
}


@dataclass(frozen=True)
class LeakageBeyond:
    """Noise on the gradient, batches, activations, both threat models. network: of Table 1 · noise: σ relative to each
    tensor's root mean square · batches: sizes · match_steps: of gradient matching on ReLU · n_train, width,
    train_steps, attack: of the trained network whose weights are attacked · weights_at: these steps, and the last."""

    network: str
    noise: tuple[float, ...]
    batches: tuple[int, ...]
    match_steps: int
    n_train: int
    width: int
    train_steps: int
    attack: Settings
    draws: int = 3
    weights_at: tuple[int, ...] = (0, 10, 20, 50, 200)


LEAKAGE_BEYOND = {
    "smoke": LeakageBeyond(
        *("CNN3 V2", (1e-4, 1e-1), (2,), 20, 20, 64, 150, Settings(m=40, restarts=1, steps=200, scale_steps=40)),
        draws=1,
        weights_at=(0,),
    ),
    "laptop": LeakageBeyond(
        *("CNN2 V1", (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0), (2, 3, 4), 1000, 40, 1000, 600),
        Settings(m=80, restarts=2),
    ),
    "paper": LeakageBeyond(
        *("CNN2 V1", (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0), (2, 3, 4), 4800, 100, 1000, 600),
        Settings(m=200, restarts=4),
    ),
}
