"""Heads on pretrained backbones: training features out of a head's first layer, and who was trained
on.
"""

from companion.chapters.base import Experiment
from companion.chapters.heads import experiment, experiment_members, story, story_members

HEADS = Experiment.of(
    experiment,
    story,
    name="heads",
    on_gpu=False,
)
MEMBERS = Experiment.of(
    experiment_members,
    story_members,
    name="heads-members",
    rescored=None,
    on_gpu=False,
)
