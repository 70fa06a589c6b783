"""Heads on pretrained backbones: training features out of a head's first layer, what they are
features of, and who was trained on.
"""

from companion.chapters.base import Experiment
from companion.chapters.heads import (
    experiment,
    experiment_gallery,
    experiment_members,
    story,
    story_gallery,
    story_members,
)

HEADS = Experiment.of(
    experiment,
    story,
    name="heads",
    on_gpu=False,
)
GALLERY = Experiment.of(
    experiment_gallery,
    story_gallery,
    name="heads-gallery",
    on_gpu=False,
)
MEMBERS = Experiment.of(
    experiment_members,
    story_members,
    name="heads-members",
    version=2,
    on_gpu=False,
)
