"""Appendix J: deeper networks, and more classes."""

from companion.chapters.architectures import experiment, story
from companion.chapters.base import Experiment

DENSE = Experiment.of(
    experiment,
    story,
    name="architectures-dense",
    chapter="j-architectures",
    summary="more layers and more classes: what a fully connected network then keeps to itself",
    cost="5 s, 2 min, 20 min",
)
