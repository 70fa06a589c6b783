"""Whole fine-tunes of a pretrained network: who was trained on."""

from companion.chapters.base import Experiment
from companion.chapters.fine_tunes import experiment, story

FINE_TUNES = Experiment.of(
    experiment,
    story,
    name="fine-tunes",
    on_gpu=False,
)
