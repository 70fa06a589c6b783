"""Chapter 11, §4 and Appendix E of Chen & Campbell (2022): four attacks on a gradient.

On the paper's two images, by networks of its seed: `companion.chapters.leakage_common` says why no
seed changes them.
"""

from companion.chapters.leakage_attacks import (
    experiment,
    experiment_matching,
    experiment_weights,
    story,
    story_matching,
    story_weights,
)
from companion.chapters.leakage_common import gradient_experiment

ATTACKS = gradient_experiment(
    experiment,
    story,
    name="leakage-attacks",
    chapter="11-leakage-attacks",
    section="C&C 4",
    summary="R-GAP, DLG, CosineTV and Hybrid on the paper's two images, Appendix E",
    cost="10 s, 1 min, half an hour",
    paper_size={"share": 1.0},
)
MATCHING = gradient_experiment(
    experiment_matching,
    story_matching,
    name="leakage-matching",
    chapter="11-leakage-attacks",
    section="C&C 4, Appendix H",
    summary="all attacks on twenty images of all classes: one cosine or many, and whose steps",
    cost="10 s, 2 min, six hours",
    paper_size={"hybrid_share": 1.0},
)
WEIGHTS = gradient_experiment(
    experiment_weights,
    story_weights,
    name="leakage-weights",
    chapter="11-leakage-attacks",
    section="C&C 4",
    summary="the weight of total variation, tuned for every attack on other images",
    cost="10 s, 1 min, two hours",
)
