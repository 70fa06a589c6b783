"""Energies of the truth, of other images and of reconstructions, at equal footing."""

from companion.chapters.base import Experiment
from companion.chapters.decoreco_truth import experiment, story

DECORECO_TRUTH = Experiment.of(
    experiment,
    story,
    name="decoreco-truth",
)
