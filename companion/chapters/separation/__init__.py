"""Chapter 6: the first layer is a mixture of the training images; blind source separation unmixes
it.
"""

from companion.chapters.base import Experiment
from companion.chapters.separation import experiment, story

SEPARATION = Experiment.of(
    experiment,
    story,
    name="separation",
)
