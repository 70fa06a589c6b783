"""Appendix A: training to the KKT regime, where homogeneous networks hold their training data; and the certificate."""

from companion.chapters.base import Experiment
from companion.chapters.kkt_training.experiment import SIZES, Metrics, compute
from companion.chapters.kkt_training.story import FIGURES, claims

KKT_TRAINING = Experiment(
    name="kkt-training",
    chapter="a-kkt-training",
    section="4.4",
    summary="training to the KKT point of the maximum-margin problem, and a certificate of arrival",
    cost={"smoke": "5 s", "laptop": "30 s", "paper": "10 min"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
)
