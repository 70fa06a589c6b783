"""Appendix C; Appendix G of Chen & Campbell (2022): what the mean gradient of a batch
determines.
"""

from companion.chapters.leakage_batches import experiment, story
from companion.chapters.leakage_common import gradient_experiment

BATCHES = gradient_experiment(
    experiment,
    story,
    name="leakage-batches",
)
