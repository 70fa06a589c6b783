"""Chapter 2, §3.2 of Runkel et al. (2024): one confident example per class, repeated, passes for
the data.
"""

from companion.chapters.base import Experiment
from companion.chapters.collapse import experiment, story

COLLAPSE = Experiment.of(
    experiment,
    story,
    name="collapse",
    chapter="02-collapse",
    section="3.2",
    summary=(
        "one confident example per class, repeated, explains the weights as well as the training"
        " data"
    ),
    cost="3 s, 30 s, minutes",
    on_gpu=False,
)
