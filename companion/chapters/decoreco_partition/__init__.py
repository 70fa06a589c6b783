"""Chapter 4, section (c), §4.4 and Fig. 9: DecoReco started from images that were never trained on."""

from companion.chapters.base import Experiment
from companion.chapters.decoreco_partition import experiment, story

DECORECO_PARTITION = Experiment.of(
    experiment,
    story,
    name="decoreco-partition",
    chapter="04-decoreco",
    section="4.4",
    summary="DecoReco started from images that were never trained on",
    cost="5 s, 1 min, five hours",
    paper_size={"n_train": 500, "width": 1000},
)
