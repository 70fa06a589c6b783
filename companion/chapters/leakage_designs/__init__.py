"""Appendix C: networks drawn at random, and whether the paper's advice on which of them to build is good."""

from companion.chapters.base import Experiment
from companion.chapters.leakage_designs.experiment import SIZES, Metrics, compute
from companion.chapters.leakage_designs.story import claims, plot_designs
from companion.chapters.leakage_networks import TABLE_1

DESIGNS = Experiment(
    name="leakage-designs",
    chapter="c-gradients",
    section="C&C 3.3",
    summary="networks drawn at random: does c(M) say which of them to build?",
    cost={"smoke": "5 s", "laptop": "2 min", "paper": "half an hour"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures={"designs": plot_designs},
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
)
