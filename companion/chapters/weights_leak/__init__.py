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
    chapter="08-weights-leak",
    summary="how many images, how wide a network: where separation ends",
    cost="10 s, 30 s, 20 min",
)
RECIPES = Experiment.of(
    experiment_recipes,
    story_recipes,
    name="separation-recipes",
    chapter="08-weights-leak",
    summary="which habits of training leave images in the first layer, and what stops it",
    cost="20 s, 1 min, 20 min",
)
PRIOR = Experiment.of(
    experiment_prior,
    story_prior,
    name="separation-prior",
    chapter="b-prior",
    summary="a prior learned on public photographs takes separation on to 500 images",
    cost="10 s, 2 min, 20 min",
)
