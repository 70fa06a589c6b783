"""Appendix F: what bounds the results on honest servers: one that cheats."""

from companion.chapters.leakage_common import gradient_experiment
from companion.chapters.leakage_limits import experiment, story

LIMITS = gradient_experiment(
    experiment,
    story,
    name="leakage-limits",
    chapter="f-beyond",
    section="C&C Appendix G",
    summary="a server that hands out a network made to be read",
    cost="3 s, 10 s, 10 s",
)
