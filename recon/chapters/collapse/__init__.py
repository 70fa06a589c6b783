"""Chapter 2, §3.2 of Runkel et al. (2024): one confident example per class, repeated, passes for the data."""

from recon.chapters.base import Experiment
from recon.chapters.collapse.claims import claims
from recon.chapters.collapse.compute import compute
from recon.chapters.collapse.figures import plot_explained, plot_images, plot_objective
from recon.chapters.collapse.metrics import Metrics
from recon.chapters.collapse.sizes import SIZES

COLLAPSE = Experiment(
    name="collapse",
    chapter="02-collapse",
    section="3.2",
    summary="one confident example per class, repeated, explains the weights as well as the training data",
    cost={"smoke": "3 s", "laptop": "30 s", "paper": "minutes"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures={"objective": plot_objective, "images": plot_images, "explained": plot_explained},
    on_gpu=False,
)
