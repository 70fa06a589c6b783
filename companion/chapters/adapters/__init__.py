"""Adapters: whether low-rank factors tell who was trained on, exactly and otherwise."""

from companion.chapters.adapters import experiment, story
from companion.chapters.base import Experiment

ADAPTERS = Experiment.of(
    experiment,
    story,
    name="adapters",
    on_gpu=False,
)
