"""Heads on pretrained backbones: training features out of a head's first layer, and who was trained on."""

from companion.chapters.base import Experiment
from companion.chapters.heads.experiment import SIZES, Metrics, compute
from companion.chapters.heads.story import FIGURES, claims

HEADS = Experiment(
    name="heads",
    chapter="09-heads",
    section="",
    summary="heads on frozen ImageNet backbones: training features in a second, members by the span",
    cost={"smoke": "5 s", "laptop": "1 min", "paper": "20 min"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
    on_gpu=False,
)
