"""Appendix F: what bounds the results on honest servers and plain networks: a residual block, a server that cheats."""

from companion.chapters.leakage_common import gradient_experiment
from companion.chapters.leakage_limits import experiment, story

LIMITS = gradient_experiment(
    experiment,
    story,
    name="leakage-limits",
    chapter="f-beyond",
    section="C&C Appendix G",
    summary="a residual block with batch norm, and a server that hands out a network made to be read",
    cost="10 s, 2 min, 20 min",
)
