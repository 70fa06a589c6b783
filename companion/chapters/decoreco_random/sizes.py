"""How large the runs from noise are, and those from three starts with few images."""

from __future__ import annotations

from dataclasses import dataclass, field

from companion.chapters.reference_common import ReferenceSizes
from recon.attacks.recover import WIDE, RecoverSettings


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """§4.4, Fig. 5: a net trained for `train_steps` into the KKT regime, and our attack's settings, its start not tuned
    · reference: the published recipe, on a net of its own · starts: from which it is run, "random" first."""

    n_train: int
    width: int
    train_steps: int
    attack: RecoverSettings
    reference: ReferenceSizes = field(default_factory=ReferenceSizes)
    starts: tuple[str, ...] = ("random", "tuned")


SIZES = {
    "smoke": Sizes(
        n_train=20,
        width=64,
        train_steps=150,
        attack=RecoverSettings(m=40, restarts=1, steps=200, scale_steps=40, init_scale=1.0),
        reference=ReferenceSizes(steps=100),
    ),
    "laptop": Sizes(
        n_train=50,
        width=500,
        train_steps=300,
        attack=RecoverSettings(m=100, restarts=1, init_scale=1.0),
        reference=ReferenceSizes(steps=300),
    ),
    "paper": Sizes(
        n_train=500,
        width=1000,
        train_steps=3000,
        attack=RecoverSettings(m=1000, restarts=1, steps=1500, init_scale=1.0, multiplier_scales=WIDE),
        reference=ReferenceSizes(precision="bfloat16"),
        starts=("random",),
    ),
}


@dataclass(frozen=True, kw_only=True)
class ReferenceTable:
    """The published recipe alone, from each start · arms: (start, precision of the products) of every row · steps."""

    n_train: int
    width: int
    steps: int
    arms: tuple[tuple[str, str], ...] = (
        ("random", "float32"),
        ("partition", "float32"),
        ("tuned", "float32"),
        ("random", "bfloat16"),
    )
    biases: str = "all"


REFERENCE_SIZES = {
    "smoke": ReferenceTable(n_train=20, width=64, steps=60),
    "laptop": ReferenceTable(n_train=20, width=200, steps=2000),
    "paper": ReferenceTable(
        n_train=100,
        width=1000,
        steps=50_000,
        arms=(("random", "float32"), ("partition", "float32"), ("tuned", "float32")),  # an hour of a core each
    ),
}
