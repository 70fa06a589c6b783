"""Chapter 3, §4.3 of Runkel et al. (2024), eq. (9): bilevel reconstruction of a one-hidden-layer network."""

from companion.chapters.base import Experiment
from companion.chapters.bilevel_hidden import experiment, experiment_path, story, story_path
from companion.chapters.bilevel_hidden.experiment import PAPER_WIDTH

HIDDEN = Experiment.of(
    experiment,
    story,
    name="bilevel-hidden",
    chapter="03-bilevel",
    section="4.3",
    summary="bilevel reconstruction of a one-hidden-layer net from starts a/b/c, and the nulls of its distance",
    cost="10 s, 1 min, 20 min",
    paper_size={"width": PAPER_WIDTH},
)
PATH = Experiment.of(
    experiment_path,
    story_path,
    name="bilevel-hidden-path",
    chapter="03-bilevel",
    section="4.3",
    summary="the same attack by short steps: what the images look like while the distance falls",
    cost="3 s, 30 s, 20 min",
    paper_size={"width": PAPER_WIDTH},
)
