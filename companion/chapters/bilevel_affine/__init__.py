"""Chapter 3, §4.3 of Runkel et al. (2024), eq. (8): bilevel reconstruction of an affine classifier."""

from companion.chapters.base import Experiment
from companion.chapters.bilevel_affine import experiment, story

AFFINE = Experiment.of(
    experiment,
    story,
    name="bilevel-affine",
    chapter="03-bilevel",
    section="4.3",
    summary="bilevel reconstruction of an affine classifier from starts a/b/c",
    cost="3 s, 10 s, minutes",
)
