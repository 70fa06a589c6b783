"""Chapter 1, §3.1 of Runkel et al. (2024): other training sets with exactly the same affine
classifier.
"""

from companion.chapters.base import Experiment
from companion.chapters.linear import experiment, story

LINEAR = Experiment.of(
    experiment,
    story,
    name="linear",
)
