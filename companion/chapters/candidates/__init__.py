"""Appendix G: other sets of images with the same weights."""

from companion.chapters.base import Experiment
from companion.chapters.candidates import experiment_sets, story_sets

SETS = Experiment.of(
    experiment_sets,
    story_sets,
    name="counterfactual-sets",
    on_gpu=False,
)
