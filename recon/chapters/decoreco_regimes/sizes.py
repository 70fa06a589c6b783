"""How large the table of chapter 9 on networks and starts is."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.recover import RecoverSettings
from recon.attacks.separation import SeparationSettings
from recon.training.decayed import DecaySettings


@dataclass(frozen=True, kw_only=True)
class Net:
    """A network of Haim et al.'s kind, with biases in all layers: n_train images, hidden `width` · weight_decay: None
    for the margin regime, `steps` of descent on log E; else `steps` of Adam with that decay."""

    n_train: int
    width: int
    steps: int
    weight_decay: float | None = None

    def decay(self) -> DecaySettings:
        """The settings of a training with weight decay."""
        return DecaySettings(self.weight_decay or 0.0, self.steps)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """nets: each is attacked in every way of `ways`: "noise" (from noise), "separated" (sources of its first layer, as
    they are) or "refined" (DecoReco begun there), with 2 n_train candidates in the end · attack, refine: their settings
    but for m; `refine` in small steps · n_train: the most images."""

    nets: tuple[Net, ...]
    ways: tuple[str, ...]
    attack: RecoverSettings
    refine: RecoverSettings
    separation: SeparationSettings
    n_train: int


ALL = (1.0, 1.0, 1.0)
REFINE = RecoverSettings(m=2, restarts=1, steps=150, step_x=2e-3, scale_steps=30, layer_weights=ALL)
ATTACK = RecoverSettings(m=2, restarts=1, steps=600, scale_steps=60, layer_weights=ALL)


def _varied() -> tuple[Net, ...]:
    """Around 50 images and width 400: how long, with which decay, how many images, how wide."""
    base = {"n_train": 50, "width": 400}
    margin = [Net(**base, steps=steps) for steps in (20, 60, 300)]
    decay = [Net(**base, steps=400, weight_decay=wd) for wd in (1e-4, 1e-3, 1e-2)]
    short = [Net(**base, steps=100, weight_decay=1e-3)]
    other = [
        net
        for n, width in ((24, 400), (50, 200), (50, 1000))
        for net in (
            Net(n_train=n, width=width, steps=6 * n),
            Net(n_train=n, width=width, steps=400, weight_decay=1e-3),
        )
    ]
    return (*margin, *decay, *short, *other)


SIZES = {
    "smoke": Sizes(
        nets=(
            Net(n_train=20, width=64, steps=100),
            Net(n_train=20, width=64, steps=20),
            Net(n_train=20, width=64, steps=100, weight_decay=1e-3),
        ),
        ways=("noise", "separated", "refined"),
        attack=RecoverSettings(m=2, restarts=1, steps=80, scale_steps=20, layer_weights=ALL),
        refine=RecoverSettings(m=2, restarts=1, steps=30, step_x=2e-3, scale_steps=10, layer_weights=ALL),
        separation=SeparationSettings(first_rank=8, iterations=40),
        n_train=20,
    ),
    "laptop": Sizes(
        nets=_varied(),
        ways=("noise",),
        attack=ATTACK,
        refine=REFINE,
        separation=SeparationSettings(),
        n_train=50,
    ),
    "paper": Sizes(
        nets=(
            Net(n_train=500, width=1000, steps=600, weight_decay=1e-3),
            Net(n_train=500, width=1000, steps=3000),
            Net(n_train=100, width=1000, steps=600, weight_decay=1e-3),
            Net(n_train=100, width=1000, steps=600),
        ),
        ways=("noise", "separated", "refined"),
        attack=RecoverSettings(m=2, restarts=2, steps=1000, scale_steps=60, layer_weights=ALL),
        refine=REFINE,
        separation=SeparationSettings(),
        n_train=500,
    ),
}
