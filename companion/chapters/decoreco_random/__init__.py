"""Chapter 4, section (a), §4.4 and Fig. 5: DecoReco from an untuned start."""

from companion.chapters.base import Experiment
from companion.chapters.decoreco_random import experiment, experiment_reference, story, story_reference

DECORECO_RANDOM = Experiment.of(
    experiment,
    story,
    name="decoreco-random",
    chapter="04-decoreco",
    section="4.4",
    summary="DecoReco from an untuned N(0, 1) start fails",
    cost="5 s, 1 min, five hours",
    paper_size={"n_train": 500, "width": 1000},
)
DECORECO_REFERENCE = Experiment.of(
    experiment_reference,
    story_reference,
    name="decoreco-reference",
    chapter="04-decoreco",
    section="4.4",
    summary="the published recipe with its full budget, from every start, at n = 100",
    cost="2 s, 2 min, three hours",
)
