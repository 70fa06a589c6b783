"""Chapter 6: the first layer is a mixture of the training images; blind source separation unmixes it."""

from companion.chapters.base import Experiment
from companion.chapters.separation.experiment import SIZES, Metrics, compute
from companion.chapters.separation.story import FIGURES, claims

SEPARATION = Experiment(
    name="separation",
    chapter="06-separation",
    section="",
    summary="blind source separation of the first layer: most training images in seconds",
    cost={"smoke": "20 s", "laptop": "4 min", "paper": "20 min"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
)
