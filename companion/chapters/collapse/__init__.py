"""Chapter 2, §3.2 of Runkel et al. (2024): one confident example per class, repeated, passes for
the data.
"""

from companion.chapters.base import Experiment
from companion.chapters.collapse import experiment, story

COLLAPSE = Experiment.of(
    experiment,
    story,
    name="collapse",
    on_gpu=False,
)
