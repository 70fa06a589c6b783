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
)
PRIOR = gradient_experiment(
    experiment_prior,
    story_prior,
    name="leakage-prior",
)
