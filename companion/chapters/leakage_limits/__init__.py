"""Appendix F: what bounds the results on honest servers and plain networks: a residual block, a server that cheats."""

from companion.chapters.base import Experiment
from companion.chapters.leakage_limits.experiment import SIZES, Metrics, compute
from companion.chapters.leakage_limits.story import FIGURES, claims
from companion.chapters.leakage_networks import TABLE_1

LIMITS = Experiment(
    name="leakage-limits",
    chapter="f-beyond",
    section="C&C Appendix G",
    summary="a residual block with batch norm, and a server that hands out a network made to be read",
    cost={"smoke": "10 s", "laptop": "2 min", "paper": "20 min"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
)
