"""Chapter 8, §4.4 and Fig. 5: DecoReco from an untuned start."""

from recon.chapters.base import Experiment
from recon.chapters.decoreco_random.claims import claims
from recon.chapters.decoreco_random.compute import compute
from recon.chapters.decoreco_random.figures import FIGURES
from recon.chapters.decoreco_random.metrics import Metrics
from recon.chapters.decoreco_random.sizes import SIZES

DECORECO_RANDOM = Experiment(
    name="decoreco-random",
    chapter="08-decoreco-random",
    section="4.4",
    summary="DecoReco from an untuned N(0, 1) start fails, and why that is no protection",
    cost={"smoke": "5 s", "laptop": "1 min", "paper": "an hour"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
    paper_size={"n_train": 500, "width": 1000},
)
