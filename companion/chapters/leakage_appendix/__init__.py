"""Appendix B: what the paper's appendices say beside their table, on the paper's two networks and
images.
"""

from companion.chapters.leakage_appendix import experiment, story
from companion.chapters.leakage_common import gradient_experiment

APPENDIX = gradient_experiment(
    experiment,
    story,
    name="leakage-appendix",
)
