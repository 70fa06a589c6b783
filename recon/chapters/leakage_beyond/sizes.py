"""How large chapter 18 is."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.recover import RecoverSettings


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """networks: of Table 1 · images: attacked, of all classes · match_steps, starts: of gradient matching by activation
    · n_train, width, train_steps, attack: of
    the trained network whose weights are attacked · weights_at: these steps, and the last."""

    networks: tuple[str, ...] = ("CNN2 V1", "CNN3 V2")
    images: int = 4
    match_steps: int
    starts: int = 3
    n_train: int
    width: int = 1000
    train_steps: int = 600
    attack: RecoverSettings
    weights_at: tuple[int, ...] = (0, 10, 20, 50, 200)


SIZES = {
    "smoke": Sizes(
        networks=("CNN3 V2",),
        images=2,
        match_steps=20,
        starts=1,
        n_train=20,
        width=64,
        train_steps=150,
        attack=RecoverSettings(m=40, restarts=1, steps=200, scale_steps=40),
        weights_at=(0,),
    ),
    "laptop": Sizes(
        images=2,
        match_steps=300,
        starts=2,
        n_train=40,
        attack=RecoverSettings(m=80, restarts=1, steps=400),
        weights_at=(0, 20, 200),
    ),
    "paper": Sizes(images=20, match_steps=4800, n_train=100, attack=RecoverSettings(m=200, restarts=4)),
}
