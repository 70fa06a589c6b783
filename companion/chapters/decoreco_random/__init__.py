"""Chapter 4, section (a), §4.4 and Fig. 5: DecoReco from an untuned start."""

from companion.chapters.base import Experiment
from companion.chapters.decoreco_random.experiment import SIZES, Metrics, compute
from companion.chapters.decoreco_random.experiment_reference import REFERENCE_SIZES, ReferenceMetrics, compute_reference
from companion.chapters.decoreco_random.story import FIGURES, claims
from companion.chapters.decoreco_random.story_reference import REFERENCE_FIGURES, reference_claims

DECORECO_RANDOM = Experiment(
    name="decoreco-random",
    chapter="04-decoreco",
    section="4.4",
    summary="DecoReco from an untuned N(0, 1) start fails, and why that is no protection",
    cost={"smoke": "5 s", "laptop": "1 min", "paper": "five hours"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
    paper_size={"n_train": 500, "width": 1000},
)
DECORECO_REFERENCE = Experiment(
    name="decoreco-reference",
    chapter="04-decoreco",
    section="4.4",
    summary="the published recipe with its full budget, from every start, at n = 100",
    cost={"smoke": "2 s", "laptop": "2 min", "paper": "three hours"},
    sizes=REFERENCE_SIZES,
    metrics=ReferenceMetrics,
    compute=compute_reference,
    claims=reference_claims,
    figures=REFERENCE_FIGURES,
)
