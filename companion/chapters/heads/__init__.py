"""Heads on pretrained backbones: training features out of a head's first layer, what they are
features of, and who was trained on.
"""

from companion.chapters.base import Experiment
from companion.chapters.heads import experiment, experiment_gallery, story, story_gallery

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
