"""Chapter 8 and appendix B: separation against numbers of images, recipes and defences; with a
learned prior.
"""

from companion.chapters.base import Experiment
from companion.chapters.weights_leak import (
    experiment_prior,
    experiment_recipes,
    experiment_size,
    story_prior,
    story_recipes,
    story_size,
)

SIZE = Experiment.of(
    experiment_size,
    story_size,
    name="separation-size",
)
RECIPES = Experiment.of(
    experiment_recipes,
    story_recipes,
    name="separation-recipes",
)
PRIOR = Experiment.of(
    experiment_prior,
    story_prior,
    name="separation-prior",
)
