"""Chapter 2, §3.2 of Runkel et al. (2024): one confident example per class, repeated, passes for the data."""

from companion.chapters.base import Experiment
from companion.chapters.collapse.experiment import SIZES, Metrics, compute
from companion.chapters.collapse.story import claims, plot_explained, plot_images, plot_objective

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
