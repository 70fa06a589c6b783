"""Appendix G: what is the seed worth?  From nothing known of the start of training to all of it."""

from companion.chapters.base import Experiment
from companion.chapters.seed.experiment import SIZES, Metrics, compute
from companion.chapters.seed.story import FIGURES, claims

SEED = Experiment(
    name="seed",
    chapter="g-seed",
    section="",
    summary="how many images come back, by how well the start of training is known",
    cost={"smoke": "10 s", "laptop": "2 min", "paper": "an hour"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
)
