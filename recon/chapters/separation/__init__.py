"""Chapter 6: the first layer is a mixture of the training images; blind source separation unmixes it."""

from recon.chapters.base import Experiment
from recon.chapters.separation.claims import claims
from recon.chapters.separation.compute import compute
from recon.chapters.separation.figures import FIGURES
from recon.chapters.separation.metrics import Metrics
from recon.chapters.separation.sizes import SIZES

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
