"""How large chapter 6 is."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.separation import SeparationSettings


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A net trained for `train_steps` into the KKT regime · attack: of the separation · shadow_n, harder_n:
    images in the adversary's own networks, on which certainty is calibrated, and in those, beside the first, on which
    it is assessed; steps grow with them."""

    n_train: int
    width: int
    train_steps: int
    attack: SeparationSettings
    shadow_n: tuple[int, ...]
    harder_n: tuple[int, ...]

    def steps(self, n: int) -> int:
        """Training steps for n images."""
        return self.train_steps * n // self.n_train


SIZES = {
    "smoke": Sizes(
        n_train=20,
        width=64,
        train_steps=150,
        attack=SeparationSettings(first_rank=8, iterations=40, restarts=2),
        shadow_n=(20, 40),
        harder_n=(40,),
    ),
    "laptop": Sizes(
        n_train=100,
        width=1000,
        train_steps=600,
        attack=SeparationSettings(restarts=4),
        shadow_n=(100, 150),
        harder_n=(150,),
    ),
    "paper": Sizes(
        n_train=500,
        width=1000,
        train_steps=3000,
        attack=SeparationSettings(growth=1.05, restarts=4),
        shadow_n=(200, 500),
        harder_n=(200,),
    ),
}
