"""Chapter 9, §4.4 and Figs. 6 to 8: DecoReco with the tuned scale, and against the number of images."""

from recon.chapters.base import Experiment
from recon.chapters.decoreco_tuned.claims import claims, published_claims, size_claims
from recon.chapters.decoreco_tuned.compute import compute
from recon.chapters.decoreco_tuned.compute_published import compute_published
from recon.chapters.decoreco_tuned.compute_size import compute_size
from recon.chapters.decoreco_tuned.figures import FIGURES, PUBLISHED_FIGURES, SIZE_FIGURES
from recon.chapters.decoreco_tuned.metrics import Metrics, PublishedMetrics, SizeMetrics
from recon.chapters.decoreco_tuned.sizes import PUBLISHED_SIZES, SIZE_SIZES, SIZES

DECORECO_PUBLISHED = Experiment(
    name="decoreco-published",
    chapter="04-decoreco",
    section="4.4",
    summary="Fig. 8 by the published recipe, from the tuned scale of its start, with its full budget",
    cost={"smoke": "2 s", "laptop": "20 s", "paper": "three hours"},
    sizes=PUBLISHED_SIZES,
    metrics=PublishedMetrics,
    compute=compute_published,
    claims=published_claims,
    figures=PUBLISHED_FIGURES,
    paper_size={"n_train": 500, "width": 1000},
)
DECORECO_TUNED = Experiment(
    name="decoreco-tuned",
    chapter="04-decoreco",
    section="4.4",
    summary="training images out of the weights, each count with its null",
    cost={"smoke": "5 s", "laptop": "2 min", "paper": "an hour"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
    paper_size={"n_train": 500, "width": 1000},
)
DECORECO_SIZE = Experiment(
    name="decoreco-size",
    chapter="04-decoreco",
    section="4.4",
    summary="how many training images come back, against how many there were",
    cost={"smoke": "5 s", "laptop": "3 min", "paper": "hours"},
    sizes=SIZE_SIZES,
    metrics=SizeMetrics,
    compute=compute_size,
    claims=size_claims,
    figures=SIZE_FIGURES,
)
