"""Chapter 6: the first layer is a mixture of the training images; blind source separation unmixes
it.
"""

from companion.chapters.base import Experiment
from companion.chapters.separation import experiment, story

SEPARATION = Experiment.of(
    experiment,
    story,
    name="separation",
    chapter="06-separation",
    summary="blind source separation of the first layer: most training images in seconds",
    cost="20 s, 4 min, 20 min",
)
