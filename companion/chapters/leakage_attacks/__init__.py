"""Chapter 11, §4 and Appendix E of Chen & Campbell (2022): four attacks on a gradient.

On the paper's two images, by networks of its seed: `companion.chapters.leakage_common` says why no
seed changes them.
"""

from companion.chapters.leakage_attacks import (
    experiment,
    experiment_weights,
    story,
    story_weights,
)
from companion.chapters.leakage_common import gradient_experiment

ATTACKS = gradient_experiment(
    experiment,
    story,
    name="leakage-attacks",
)
WEIGHTS = gradient_experiment(
    experiment_weights,
    story_weights,
    name="leakage-weights",
)
