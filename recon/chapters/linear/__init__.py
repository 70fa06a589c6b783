"""Chapter 1, §3.1 of Runkel et al. (2024): other training sets with exactly the same affine classifier."""

from recon.chapters.base import Experiment
from recon.chapters.linear.claims import claims
from recon.chapters.linear.compute import compute
from recon.chapters.linear.figures import FIGURES
from recon.chapters.linear.metrics import Metrics
from recon.chapters.linear.sizes import SIZES

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
