"""Energies of the truth, of other images and of reconstructions, at equal footing."""

from companion.chapters.base import Experiment
from companion.chapters.decoreco_truth import experiment, story

DECORECO_TRUTH = Experiment.of(
    experiment,
    story,
    name="decoreco-truth",
    chapter="05-landscape",
    section="4.4",
    summary=(
        "the energy of the training images, of other images and of reconstructions, at equal number"
    ),
    cost="5 s, 1 min, 20 min",
    paper_size={"n_train": 500, "width": 1000},
)
