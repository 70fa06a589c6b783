"""How large chapter 10 is."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.recover import RecoverSettings


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """§4.4, Fig. 9: a net trained for `train_steps` into the KKT regime, and the attack's settings, with as many
    candidates as the start partition has images · reference_steps: of the reference recipe (50,000 in the original)."""

    n_train: int
    width: int
    train_steps: int
    attack: RecoverSettings
    reference_steps: int = 600


SIZES = {
    "smoke": Sizes(
        n_train=20,
        width=64,
        train_steps=150,
        attack=RecoverSettings(m=20, restarts=1, steps=200, scale_steps=40),
        reference_steps=100,
    ),
    "laptop": Sizes(n_train=100, width=1000, train_steps=600, attack=RecoverSettings(m=100, restarts=1)),
    "paper": Sizes(
        n_train=500,
        width=1000,
        train_steps=3000,
        attack=RecoverSettings(m=500, restarts=1, steps=1500),
        reference_steps=50_000,
    ),
}
