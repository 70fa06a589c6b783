"""Chapter 10, §3.2 of Chen & Campbell (2022): gradients as linear systems, their ranks and the
security metric.

On the paper's two images, by networks of its seed: `companion.chapters.leakage_common` says why no
seed changes them.
"""

from companion.chapters.leakage_common import gradient_experiment
from companion.chapters.leakage_rank import (
    experiment,
    experiment_designs,
    experiment_identifiability,
    story,
    story_designs,
    story_identifiability,
)

RANK = gradient_experiment(
    experiment,
    story,
    name="leakage-rank",
)
IDENTIFIABILITY = gradient_experiment(
    experiment_identifiability,
    story_identifiability,
    name="leakage-identifiability",
)
DESIGNS = gradient_experiment(
    experiment_designs,
    story_designs,
    name="leakage-designs",
)
