"""Appendix F: what bounds the results on honest servers: one that cheats."""

from companion.chapters.leakage_common import gradient_experiment
from companion.chapters.leakage_limits import experiment, story

LIMITS = gradient_experiment(
    experiment,
    story,
    name="leakage-limits",
)
