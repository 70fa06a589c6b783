"""Chapter 11, §4 and Appendix E of Chen & Campbell (2022): four attacks on a gradient.

On the paper's two images, by networks of its seed: `companion.chapters.leakage_common` says why no
seed changes them.
"""

from companion.chapters.leakage_attacks import (
    experiment,
    experiment_matching,
    story,
    story_matching,
)
from companion.chapters.leakage_common import gradient_experiment

ATTACKS = gradient_experiment(
    experiment,
    story,
    name="leakage-attacks",
)
MATCHING = gradient_experiment(
    experiment_matching,
    story_matching,
    name="leakage-matching",
)
