"""What chapter 3 measures."""

from __future__ import annotations

from dataclasses import dataclass

from recon.chapters.bilevel_common import ImageNull, Reconstructed


@dataclass(frozen=True, kw_only=True)
class Null(ImageNull):
    """‖θ* − θ‖² of a classifier that starts its training elsewhere, and of one trained on the held-out images."""

    other_seed_sum: float
    other_data_sum: float


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The three starts; steps: outer iterations that were made."""

    n_train: int
    steps: int
    weight_decay: float
    random: Reconstructed
    truth: Reconstructed
    partition: Reconstructed
    null: Null

    def starts(self) -> dict[str, Reconstructed]:
        """The three by name."""
        return {"random": self.random, "truth": self.truth, "partition": self.partition}
