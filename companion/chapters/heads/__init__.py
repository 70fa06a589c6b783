"""Heads on pretrained backbones: training features out of a head's first layer, and who was trained
on.
"""

from companion.chapters.base import Experiment
from companion.chapters.heads import experiment, story

HEADS = Experiment.of(
    experiment,
    story,
    name="heads",
    chapter="09-heads",
    summary=(
        "heads on frozen ImageNet backbones: training features in a second, members by the span"
    ),
    cost="5 s, 1 min, 20 min",
    on_gpu=False,
)
