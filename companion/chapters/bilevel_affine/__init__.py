"""Chapter 3, §4.3 of Runkel et al. (2024), eq. (8): bilevel reconstruction of an affine classifier."""

from companion.chapters.base import Experiment
from companion.chapters.bilevel_affine.experiment import SIZES, Metrics, compute
from companion.chapters.bilevel_affine.story import claims
from companion.chapters.bilevel_pictures import plot_starts

AFFINE = Experiment(
    name="bilevel-affine",
    chapter="03-bilevel",
    section="4.3",
    summary="bilevel reconstruction of an affine classifier from starts a/b/c",
    cost={"smoke": "3 s", "laptop": "10 s", "paper": "minutes"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures={"starts": plot_starts},
)
