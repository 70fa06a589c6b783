"""How large the published recipe's run from its tuned start is."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.haim_recipe import STEPS


@dataclass(frozen=True, kw_only=True)
class PublishedSizes:
    """Fig. 8 by the published recipe, on a network trained as the reference did · steps: of the recipe · rounded:
    whether it multiplies bfloat16 operands, see `companion.chapters.rounded`."""

    n_train: int
    width: int
    steps: int
    rounded: bool = False


PUBLISHED_SIZES = {
    "smoke": PublishedSizes(n_train=20, width=64, steps=100),
    "laptop": PublishedSizes(n_train=50, width=500, steps=1000),
    # the run that is kept rounded its operands; benchmarks/precision.py has what that saves and changes
    "paper": PublishedSizes(n_train=500, width=1000, steps=STEPS),
}
