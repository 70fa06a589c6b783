"""Chapter 10, §3.3 of Chen & Campbell (2022): gradients as linear systems, their ranks and the security metric.

On the paper's two images, by networks of its seed: `companion.chapters.leakage_common` says why no seed changes them.
"""

from companion.chapters.base import Experiment
from companion.chapters.leakage_networks import TABLE_1
from companion.chapters.leakage_rank import experiment, experiment_identifiability, story, story_identifiability

RANK = Experiment.of(
    experiment,
    story,
    name="leakage-rank",
    chapter="10-leakage-rank",
    section="C&C 3.3",
    summary="gradients as linear systems: rank deficiency of every layer and the security metric, Table 1",
    cost="5 s, 1 min, 1 min",
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
)
IDENTIFIABILITY = Experiment.of(
    experiment_identifiability,
    story_identifiability,
    name="leakage-identifiability",
    chapter="c-gradients",
    summary="does one gradient determine its image, is it found, and would the adversary know?",
    cost="20 s, 2 min, two hours",
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
)
