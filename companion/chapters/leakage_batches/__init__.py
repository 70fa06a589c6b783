"""Appendix D; Appendix G of Chen & Campbell (2022): what the mean gradient of a batch determines."""

from companion.chapters.base import Experiment
from companion.chapters.leakage_batches.experiment import SIZES, Metrics, compute
from companion.chapters.leakage_batches.story import FIGURES, claims
from companion.chapters.leakage_networks import TABLE_1

BATCHES = Experiment(
    name="leakage-batches",
    chapter="d-batches",
    section="C&C 5, Appendix G",
    summary="batches, local steps and unknown labels: how many images one mean gradient determines",
    cost={"smoke": "10 s", "laptop": "1 min", "paper": "an hour"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
)
