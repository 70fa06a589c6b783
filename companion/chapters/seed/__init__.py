"""Appendix G: what is the seed worth?  From nothing known of the start of training to all of it."""

from companion.chapters.base import Experiment
from companion.chapters.seed import experiment, story

SEED = Experiment.of(
    experiment,
    story,
    name="seed",
    chapter="g-seed",
    summary="how many images come back, by how well the start of training is known",
    cost="10 s, 2 min, an hour",
)
