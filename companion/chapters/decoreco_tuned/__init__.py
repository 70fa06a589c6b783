"""Chapter 4, section (b), §4.4 and Figs. 6 to 8: the published recipe from the tuned scale of its start."""

from companion.chapters.base import Experiment
from companion.chapters.decoreco_tuned import experiment, story

DECORECO_PUBLISHED = Experiment.of(
    experiment,
    story,
    name="decoreco-published",
    chapter="04-decoreco",
    section="4.4",
    summary="Fig. 8 by the published recipe, from the tuned scale of its start, with its full budget",
    cost="2 s, 20 s, three hours",
    paper_size={"n_train": 500, "width": 1000},
)
