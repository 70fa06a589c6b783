"""Appendix G: other sets of images with the same weights."""

from companion.chapters.base import Experiment
from companion.chapters.candidates import experiment_sets, story_sets

SETS = Experiment.of(
    experiment_sets,
    story_sets,
    name="counterfactual-sets",
    chapter="g-candidates",
    summary=(
        "other images with pixels in [0, 1] that satisfy the same KKT conditions: how many, how"
        " far, how natural"
    ),
    cost="5 s, 3 min, an hour",
    on_gpu=False,
)
