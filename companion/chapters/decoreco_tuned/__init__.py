"""Chapter 4, section (b), §4.4 and Figs. 6 to 8: the published recipe from the tuned scale of its start."""

from companion.chapters.base import Experiment
from companion.chapters.decoreco_tuned.experiment import PUBLISHED_SIZES, PublishedMetrics, compute_published
from companion.chapters.decoreco_tuned.story import FIGURES, claims

DECORECO_PUBLISHED = Experiment(
    name="decoreco-published",
    chapter="04-decoreco",
    section="4.4",
    summary="Fig. 8 by the published recipe, from the tuned scale of its start, with its full budget",
    cost={"smoke": "2 s", "laptop": "20 s", "paper": "three hours"},
    sizes=PUBLISHED_SIZES,
    metrics=PublishedMetrics,
    compute=compute_published,
    claims=claims,
    figures=FIGURES,
    paper_size={"n_train": 500, "width": 1000},
)
