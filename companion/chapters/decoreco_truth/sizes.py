"""How large chapter 5 is."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.recover import WIDE, RecoverSettings


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Equal footing: a net trained for `train_steps` into the KKT regime, and the attack's settings; it is also run
    with as many candidates as images."""

    n_train: int
    width: int
    train_steps: int
    attack: RecoverSettings


SIZES = {
    "smoke": Sizes(
        n_train=20, width=64, train_steps=150, attack=RecoverSettings(m=40, restarts=1, steps=200, scale_steps=40)
    ),
    "laptop": Sizes(
        n_train=50,
        width=1000,
        train_steps=300,
        attack=RecoverSettings(m=100, restarts=1, steps=600, scale_steps=60),
    ),
    "paper": Sizes(
        n_train=500,
        width=1000,
        train_steps=3000,
        attack=RecoverSettings(m=1000, restarts=1, steps=1500, multiplier_scales=WIDE),
    ),
}
