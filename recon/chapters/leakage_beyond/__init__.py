"""Chapter 18: other activations, and both threat models side by side."""

from recon.chapters.base import Experiment
from recon.chapters.leakage_beyond.claims import claims
from recon.chapters.leakage_beyond.compute import compute
from recon.chapters.leakage_beyond.figures import FIGURES
from recon.chapters.leakage_beyond.metrics import Metrics
from recon.chapters.leakage_beyond.sizes import SIZES
from recon.nets.conv import TABLE_1

BEYOND = Experiment(
    name="leakage-beyond",
    chapter="f-beyond",
    section="C&C 5",
    summary="other activations, and what a gradient leaks against what weights leak",
    cost={"smoke": "10 s", "laptop": "2 min", "paper": "20 min"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
    shape=TABLE_1["CNN2 V1"].shape,
)
