"""Chapter 11, §4 and Appendix E of Chen & Campbell (2022): four attacks on a gradient.

On the paper's two images, by networks of its seed: `companion.chapters.leakage_common` says why no seed changes them.
"""

from companion.chapters.base import Experiment
from companion.chapters.leakage_attacks.experiment import SIZES, Metrics, compute
from companion.chapters.leakage_attacks.experiment_matching import MATCHING_SIZES, MatchingMetrics, compute_matching
from companion.chapters.leakage_attacks.story import FIGURES, claims
from companion.chapters.leakage_attacks.story_matching import MATCHING_FIGURES, matching_claims
from companion.chapters.leakage_networks import TABLE_1

ATTACKS = Experiment(
    name="leakage-attacks",
    chapter="11-leakage-attacks",
    section="C&C 4",
    summary="R-GAP, DLG, CosineTV and Hybrid on the paper's two images, Appendix E",
    cost={"smoke": "10 s", "laptop": "1 min", "paper": "half an hour"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
    paper_size={"share": 1.0},
)
MATCHING = Experiment(
    name="leakage-matching",
    chapter="11-leakage-attacks",
    section="C&C 4, Appendix H",
    summary="all attacks on twenty images of all classes: one cosine or many, whose steps, how much smoothing",
    cost={"smoke": "10 s", "laptop": "2 min", "paper": "six hours"},
    sizes=MATCHING_SIZES,
    metrics=MatchingMetrics,
    compute=compute_matching,
    claims=matching_claims,
    figures=MATCHING_FIGURES,
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
    paper_size={"hybrid_share": 1.0},
)
