"""§4.5 of Runkel et al. (2024): the landscapes of both formulations over the starts of eq. (10)."""

from companion.chapters.base import Experiment
from companion.chapters.landscape import experiment_bilevel, experiment_recipe, story

BILEVEL = Experiment.of(
    experiment_bilevel,
    story,
    name="landscape-bilevel",
)
RECIPE = Experiment.of(
    experiment_recipe,
    story,
    claims=story.recipe_claims,
    figures={"lines": story.plot_recipe, "images": story.plot_recipe_images},
    selected=story.recipe_selected,
    name="landscape-recipe",
)
