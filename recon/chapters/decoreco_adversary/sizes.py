"""How large chapter 12 is."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.recover import RecoverSettings


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """`networks` released nets, each on images of its own, and one shadow net of the adversary's on theirs · threshold:
    of the NCC above which a candidate is true."""

    n_train: int
    width: int
    train_steps: int
    networks: int
    attack: RecoverSettings
    threshold: float = 0.6


SIZES = {
    "smoke": Sizes(
        n_train=20,
        width=64,
        train_steps=150,
        networks=2,
        attack=RecoverSettings(m=40, restarts=2, steps=200, scale_steps=40),
    ),
    "laptop": Sizes(n_train=100, width=500, train_steps=600, networks=3, attack=RecoverSettings(m=200, restarts=4)),
    "paper": Sizes(
        n_train=500, width=1000, train_steps=3000, networks=3, attack=RecoverSettings(m=1000, restarts=4, steps=1500)
    ),
}
