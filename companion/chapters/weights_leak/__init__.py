"""Chapter 8: separation against numbers of images, recipes and defences."""

from companion.chapters.base import Experiment
from companion.chapters.weights_leak import (
    experiment_recipes,
    experiment_size,
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
