"""How large the run from other photographs is."""

from __future__ import annotations

from dataclasses import dataclass, field

from companion.chapters.reference_common import ReferenceSizes
from recon.attacks.recover import WIDE, RecoverSettings


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """§4.4, Fig. 9: a net trained for `train_steps` into the KKT regime, and our attack's settings, with as many
    candidates as the start partition has images · reference: the published recipe, on a net of its own, with twice as
    many candidates, all from different images."""

    n_train: int
    width: int
    train_steps: int
    attack: RecoverSettings
    reference: ReferenceSizes = field(default_factory=ReferenceSizes)


SIZES = {
    "smoke": Sizes(
        n_train=20,
        width=64,
        train_steps=150,
        attack=RecoverSettings(m=20, restarts=1, steps=200, scale_steps=40),
        reference=ReferenceSizes(steps=100),
    ),
    "laptop": Sizes(
        n_train=50,
        width=500,
        train_steps=300,
        attack=RecoverSettings(m=50, restarts=1),
        reference=ReferenceSizes(steps=300),
    ),
    "paper": Sizes(
        n_train=500,
        width=1000,
        train_steps=3000,
        attack=RecoverSettings(m=500, restarts=1, steps=1500, multiplier_scales=WIDE),
        reference=ReferenceSizes(precision="bfloat16"),
    ),
}
