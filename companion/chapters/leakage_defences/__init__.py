"""Appendix E; Appendix G of Chen & Campbell (2022): what hides an image from its gradient, and what
does not.
"""

from companion.chapters.leakage_common import gradient_experiment
from companion.chapters.leakage_defences import experiment, experiment_prior, story, story_prior

DEFENCES = gradient_experiment(
    experiment,
    story,
    figures={},
    name="leakage-defences",
    chapter="e-noise",
    section="C&C 5, Appendix G",
    summary="noise in units of differential privacy: what is left of the image",
    cost="10 s, 2 min, three hours",
)
PRIOR = gradient_experiment(
    experiment_prior,
    story_prior,
    name="leakage-prior",
    chapter="e-noise",
    summary="the same noise, and an adversary who knows mean and covariance of public photographs",
    cost="10 s, 2 min, half an hour",
)
