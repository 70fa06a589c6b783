"""Chapter 10, §3.3 of Chen & Campbell (2022): gradients as linear systems, their ranks and the security metric.

On the paper's two images, by networks of its seed: `companion.chapters.leakage_common` says why no seed changes them.
"""

from companion.chapters.base import Experiment
from companion.chapters.leakage_networks import TABLE_1
from companion.chapters.leakage_rank.experiment import SIZES, Metrics, compute
from companion.chapters.leakage_rank.experiment_identifiability import (
    IDENTIFIABILITY_SIZES,
    IdentifiabilityMetrics,
    compute_identifiability,
)
from companion.chapters.leakage_rank.story import claims, plot_rank
from companion.chapters.leakage_rank.story_identifiability import (
    identifiability_claims,
    plot_found,
    plot_identified,
    plot_moved,
)

RANK = Experiment(
    name="leakage-rank",
    chapter="10-leakage-rank",
    section="C&C 3.3",
    summary="gradients as linear systems: rank deficiency of every layer and the security metric, Table 1",
    cost={"smoke": "5 s", "laptop": "1 min", "paper": "1 min"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures={"rank": plot_rank},
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
)
IDENTIFIABILITY = Experiment(
    name="leakage-identifiability",
    chapter="c-gradients",
    section="",
    summary="does one gradient determine its image, is it found, and would the adversary know?",
    cost={"smoke": "20 s", "laptop": "2 min", "paper": "two hours"},
    sizes=IDENTIFIABILITY_SIZES,
    metrics=IdentifiabilityMetrics,
    compute=compute_identifiability,
    claims=identifiability_claims,
    figures={"identified": plot_identified, "found": plot_found, "moved": plot_moved},
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
)
