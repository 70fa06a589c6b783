"""Appendix C: networks drawn at random, and whether the paper's advice on which of them to build is good."""

from companion.chapters.base import Experiment
from companion.chapters.leakage_designs import experiment, story
from companion.chapters.leakage_networks import TABLE_1

DESIGNS = Experiment.of(
    experiment,
    story,
    name="leakage-designs",
    chapter="c-gradients",
    section="C&C 3.3",
    summary="networks drawn at random: does c(M) say which of them to build?",
    cost="5 s, 2 min, half an hour",
    on_gpu=False,
    shape=TABLE_1["CNN2 V1"].shape,
)
