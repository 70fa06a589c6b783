"""Heads on pretrained backbones: training features out of a head's first layer, and who was trained
on.
"""

from companion.chapters.base import Experiment
from companion.chapters.heads import experiment, story

HEADS = Experiment.of(
    experiment,
    story,
    name="heads",
    on_gpu=False,
)
