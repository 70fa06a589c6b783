"""Appendix D; Appendix G of Chen & Campbell (2022): what hides an image from its gradient, and what
does not.
"""

from companion.chapters.leakage_common import gradient_experiment
from companion.chapters.leakage_defences import experiment, story

DEFENCES = gradient_experiment(
    experiment,
    story,
    name="leakage-defences",
)
