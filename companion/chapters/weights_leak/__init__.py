"""Chapter 8 and appendix B: separation against numbers of images, recipes and defences; with a learned prior."""

from companion.chapters.base import Experiment
from companion.chapters.weights_leak.experiment_prior import PRIOR_SIZES, PriorMetrics, compute_prior
from companion.chapters.weights_leak.experiment_recipes import RECIPE_SIZES, RecipeMetrics, compute_recipes
from companion.chapters.weights_leak.experiment_size import MAP_SIZES, SizeMetrics, compute_size
from companion.chapters.weights_leak.story_prior import PRIOR_FIGURES, prior_claims
from companion.chapters.weights_leak.story_recipes import RECIPE_FIGURES, recipe_claims
from companion.chapters.weights_leak.story_size import SIZE_FIGURES, size_claims

SIZE = Experiment(
    name="separation-size",
    chapter="08-weights-leak",
    section="",
    summary="how many images, how wide a network, how many pixels: where separation ends",
    cost={"smoke": "10 s", "laptop": "30 s", "paper": "20 min"},
    sizes=MAP_SIZES,
    metrics=SizeMetrics,
    compute=compute_size,
    claims=size_claims,
    figures=SIZE_FIGURES,
)
RECIPES = Experiment(
    name="separation-recipes",
    chapter="08-weights-leak",
    section="",
    summary="which habits of training leave images in the first layer, and what stops it",
    cost={"smoke": "20 s", "laptop": "1 min", "paper": "20 min"},
    sizes=RECIPE_SIZES,
    metrics=RecipeMetrics,
    compute=compute_recipes,
    claims=recipe_claims,
    figures=RECIPE_FIGURES,
)
PRIOR = Experiment(
    name="separation-prior",
    chapter="b-prior",
    section="",
    summary="a prior learned on public photographs takes separation on to 500 images",
    cost={"smoke": "10 s", "laptop": "2 min", "paper": "20 min"},
    sizes=PRIOR_SIZES,
    metrics=PriorMetrics,
    compute=compute_prior,
    claims=prior_claims,
    figures=PRIOR_FIGURES,
)
