"""Chapter 4, section (c), §4.4 and Fig. 9: DecoReco started from images that were never trained on."""

from companion.chapters.base import Experiment
from companion.chapters.decoreco_partition.experiment import SIZES, Metrics, compute
from companion.chapters.decoreco_partition.story import FIGURES, claims

DECORECO_PARTITION = Experiment(
    name="decoreco-partition",
    chapter="04-decoreco",
    section="4.4",
    summary="DecoReco started from images that were never trained on",
    cost={"smoke": "5 s", "laptop": "1 min", "paper": "five hours"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
    paper_size={"n_train": 500, "width": 1000},
)
