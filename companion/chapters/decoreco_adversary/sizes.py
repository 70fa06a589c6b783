"""How large chapter 7 is."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.recover import RecoverSettings
from recon.attacks.separation import SeparationSettings


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """`networks` released nets, each on n_train images of its own, attacked by DecoReco; and as many on more_n images
    each, attacked by separation, which begins to fail there.  Each is judged by what the others teach.  train_steps:
    for n_train images, more for more · draws: of the bootstrap."""

    n_train: int
    more_n: int
    width: int
    train_steps: int
    networks: int
    attack: RecoverSettings
    separation: SeparationSettings
    draws: int = 1000

    def steps(self, n: int) -> int:
        """Training steps for n images."""
        return self.train_steps * n // self.n_train


SIZES = {
    "smoke": Sizes(
        n_train=20,
        more_n=40,
        width=64,
        train_steps=150,
        networks=2,
        attack=RecoverSettings(m=40, restarts=2, steps=200, scale_steps=40),
        separation=SeparationSettings(first_rank=8, iterations=40, restarts=2),
        draws=100,
    ),
    "laptop": Sizes(
        n_train=60,
        more_n=120,
        width=300,
        train_steps=360,
        networks=3,
        attack=RecoverSettings(m=120, restarts=1, steps=500),
        separation=SeparationSettings(restarts=2),
    ),
    "paper": Sizes(
        n_train=100,
        more_n=200,
        width=1000,
        train_steps=600,
        networks=10,
        attack=RecoverSettings(m=200, restarts=4),
        separation=SeparationSettings(restarts=4),
    ),
}
