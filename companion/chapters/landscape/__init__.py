"""§4.5 of Runkel et al. (2024): the landscapes of both formulations over the starts of eq. (10)."""

from companion.chapters.base import Experiment
from companion.chapters.landscape import compute_bilevel, compute_decoreco, compute_recipe
from companion.chapters.landscape.experiment_bilevel import BILEVEL_SIZES, BilevelMetrics
from companion.chapters.landscape.experiment_decoreco import DECORECO_SIZES, DecorecoMetrics
from companion.chapters.landscape.experiment_recipe import RECIPE_SIZES, RecipeMetrics
from companion.chapters.landscape.story_bilevel import bilevel_claims, plot_maps
from companion.chapters.landscape.story_decoreco import decoreco_claims
from companion.chapters.landscape.story_recipe import plot_recipe, plot_recipe_images, recipe_claims
from recon.attacks.haim_recipe import STEPS

BILEVEL = Experiment(
    name="landscape-bilevel",
    chapter="05-landscape",
    section="4.5",
    summary="25 starts between truth, partition and noise for the affine bilevel problem, and a fine map",
    cost={"smoke": "10 s", "laptop": "1 min", "paper": "5 min"},
    sizes=BILEVEL_SIZES,
    metrics=BilevelMetrics,
    compute=compute_bilevel.compute,
    claims=bilevel_claims,
    figures={"maps": plot_maps},
)
DECORECO = Experiment(
    name="landscape-decoreco",
    chapter="05-landscape",
    section="4.5",
    summary="the same starts for DecoReco, on its own net and on the bilevel problem's",
    cost={"smoke": "15 s", "laptop": "1 min", "paper": "hours"},
    sizes=DECORECO_SIZES,
    metrics=DecorecoMetrics,
    compute=compute_decoreco.compute,
    claims=decoreco_claims,
    figures={},
    paper_size={"width": 1000},
)
RECIPE = Experiment(
    name="landscape-recipe",
    chapter="05-landscape",
    section="4.5",
    summary="DecoReco's landscape by the published recipe: seven of the starts, with its full budget",
    cost={"smoke": "2 s", "laptop": "20 s", "paper": "three hours"},
    sizes=RECIPE_SIZES,
    metrics=RecipeMetrics,
    compute=compute_recipe.compute,
    claims=recipe_claims,
    figures={"lines": plot_recipe, "images": plot_recipe_images},
    paper_size={"width": 1000, "recipe_steps": STEPS},
)
