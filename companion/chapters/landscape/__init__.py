"""§4.5 of Runkel et al. (2024): the landscapes of both formulations over the starts of eq. (10)."""

from companion.chapters.base import Experiment
from companion.chapters.landscape import (
    experiment_bilevel,
    experiment_decoreco,
    experiment_recipe,
    story,
)
from recon.attacks.haim_recipe import STEPS

BILEVEL = Experiment.of(
    experiment_bilevel,
    story,
    name="landscape-bilevel",
    chapter="05-landscape",
    section="4.5",
    summary=(
        "25 starts between truth, partition and noise for the affine bilevel problem, and walks"
        " between solutions"
    ),
    cost="10 s, 1 min, 5 min",
)
DECORECO = Experiment.of(
    experiment_decoreco,
    story,
    claims=story.decoreco_claims,
    figures={},
    name="landscape-decoreco",
    chapter="05-landscape",
    section="4.5",
    summary=(
        "energies between the ends of DecoReco and of the bilevel attack on the same affine net"
    ),
    cost="3 s, 10 s, 2 min",
)
RECIPE = Experiment.of(
    experiment_recipe,
    story,
    claims=story.recipe_claims,
    figures={"lines": story.plot_recipe, "images": story.plot_recipe_images},
    selected=story.recipe_selected,
    name="landscape-recipe",
    chapter="05-landscape",
    section="4.5",
    summary=(
        "DecoReco's landscape by the published recipe: seven of the starts, with its full budget"
    ),
    cost="2 s, 20 s, three hours",
    paper_size={"width": 1000, "recipe_steps": STEPS},
)
