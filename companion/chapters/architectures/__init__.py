"""Appendix J: deeper networks, and more classes."""

from companion.chapters.architectures.experiment import DENSE_SIZES, DenseMetrics, compute_dense
from companion.chapters.architectures.story import DENSE_FIGURES, dense_claims
from companion.chapters.base import Experiment

DENSE = Experiment(
    name="architectures-dense",
    chapter="j-architectures",
    section="",
    summary="more layers and more classes: what a fully connected network then keeps to itself",
    cost={"smoke": "5 s", "laptop": "2 min", "paper": "20 min"},
    sizes=DENSE_SIZES,
    metrics=DenseMetrics,
    compute=compute_dense,
    claims=dense_claims,
    figures=DENSE_FIGURES,
)
