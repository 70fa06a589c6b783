"""Appendix E; Appendix G of Chen & Campbell (2022): what hides an image from its gradient, and what does not."""

from companion.chapters.base import Experiment
from companion.chapters.leakage_defences import experiment, experiment_prior, story, story_prior
from companion.chapters.leakage_networks import TABLE_1

DEFENCES = Experiment.of(
    experiment,
    story,
    name="leakage-defences",
    chapter="e-noise",
    section="C&C 5, Appendix G",
    summary="noise in units of differential privacy: what is left of the image",
    cost="10 s, 2 min, three hours",
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
)
PRIOR = Experiment.of(
    experiment_prior,
    story_prior,
    name="leakage-prior",
    chapter="e-noise",
    summary="the same noise, and an adversary who knows mean and covariance of public photographs",
    cost="10 s, 2 min, half an hour",
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
)
