"""Appendix E; Appendix G of Chen & Campbell (2022): what hides an image from its gradient, and what does not."""

from companion.chapters.base import Experiment
from companion.chapters.leakage_defences.experiment import SIZES, Metrics, compute
from companion.chapters.leakage_defences.experiment_prior import PRIOR_SIZES, PriorMetrics, compute_prior
from companion.chapters.leakage_defences.story import FIGURES, claims
from companion.chapters.leakage_defences.story_prior import PRIOR_FIGURES, prior_claims
from companion.chapters.leakage_networks import TABLE_1

DEFENCES = Experiment(
    name="leakage-defences",
    chapter="e-noise",
    section="C&C 5, Appendix G",
    summary="noise in units of differential privacy, compression and signs: what is left of the image",
    cost={"smoke": "10 s", "laptop": "2 min", "paper": "three hours"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
)
PRIOR = Experiment(
    name="leakage-prior",
    chapter="e-noise",
    section="",
    summary="the same noise, and an adversary who knows mean and covariance of public photographs",
    cost={"smoke": "10 s", "laptop": "2 min", "paper": "half an hour"},
    sizes=PRIOR_SIZES,
    metrics=PriorMetrics,
    compute=compute_prior,
    claims=prior_claims,
    figures=PRIOR_FIGURES,
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
)
