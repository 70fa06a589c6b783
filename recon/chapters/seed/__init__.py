"""Chapter 19: what is the seed worth?  From nothing known of the start of training to all of it."""

from recon.chapters.base import Experiment
from recon.chapters.seed.claims import claims, distribution_claims, law_claims
from recon.chapters.seed.compute import compute
from recon.chapters.seed.compute_distribution import compute_distribution
from recon.chapters.seed.compute_law import compute_law
from recon.chapters.seed.figures import DISTRIBUTION_FIGURES, FIGURES, LAW_FIGURES
from recon.chapters.seed.metrics import DistributionMetrics, LawMetrics, Metrics
from recon.chapters.seed.sizes import DISTRIBUTION_SIZES, LAW_SIZES, SIZES

SEED = Experiment(
    name="seed",
    chapter="g-seed",
    section="",
    summary="how many images come back, by how well the start of training is known",
    cost={"smoke": "10 s", "laptop": "2 min", "paper": "an hour"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
)
SEED_DISTRIBUTION = Experiment(
    name="seed-distribution",
    chapter="g-seed",
    section="",
    summary="whether it helps to know how the start was drawn, and nothing else of it",
    cost={"smoke": "3 s", "laptop": "1 min", "paper": "5 min"},
    sizes=DISTRIBUTION_SIZES,
    metrics=DistributionMetrics,
    compute=compute_distribution,
    claims=distribution_claims,
    figures=DISTRIBUTION_FIGURES,
)
LAW = Experiment(
    name="seed-law",
    chapter="g-seed",
    section="",
    summary="how many parameters it takes for weights to hold their images, the start being known",
    cost={"smoke": "2 s", "laptop": "2 min", "paper": "an hour"},
    sizes=LAW_SIZES,
    metrics=LawMetrics,
    compute=compute_law,
    claims=law_claims,
    figures=LAW_FIGURES,
)
