"""Chapter 1, §3.1 of Runkel et al. (2024): other training sets with exactly the same affine classifier."""

from companion.chapters.base import Experiment
from companion.chapters.linear.experiment import SIZES, Metrics, compute
from companion.chapters.linear.story import FIGURES, claims

LINEAR = Experiment(
    name="linear",
    chapter="01-linear",
    section="3.1",
    summary="other training sets with exactly the same affine classifier",
    cost={"smoke": "5 s", "laptop": "1 min", "paper": "4 min"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
)
