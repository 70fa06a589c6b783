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
    chapter="10-leakage-rank",
    section="C&C 3.2",
    summary=(
        "gradients as linear systems: rank deficiency of every layer and the security metric,"
        " Table 1"
    ),
    cost="5 s, 1 min, 1 min",
)
IDENTIFIABILITY = gradient_experiment(
    experiment_identifiability,
    story_identifiability,
    name="leakage-identifiability",
    chapter="c-gradients",
    summary="does one gradient determine its image, is it found, and would the adversary know?",
    cost="20 s, 2 min, two hours",
)
DESIGNS = gradient_experiment(
    experiment_designs,
    story_designs,
    name="leakage-designs",
    chapter="c-gradients",
    section="C&C 3.2",
    summary="networks drawn at random: does c(M) say which of them to build?",
    cost="5 s, 2 min, half an hour",
)
