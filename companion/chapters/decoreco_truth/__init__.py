"""Energies of the truth, of other images and of reconstructions, at equal footing."""

from companion.chapters.base import Experiment
from companion.chapters.decoreco_truth.experiment import SIZES, Metrics, compute
from companion.chapters.decoreco_truth.story import FIGURES, claims

DECORECO_TRUTH = Experiment(
    name="decoreco-truth",
    chapter="05-landscape",
    section="4.4",
    summary="the energy of the true training set, of other images and of reconstructions, at equal footing",
    cost={"smoke": "5 s", "laptop": "1 min", "paper": "20 min"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
    paper_size={"n_train": 500, "width": 1000},
)
