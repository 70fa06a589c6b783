"""Chapter 3, §4.3 of Runkel et al. (2024), eq. (9): bilevel reconstruction of a one-hidden-layer network."""

from companion.chapters.base import Experiment
from companion.chapters.bilevel_hidden.experiment import PAPER_WIDTH, SIZES, Metrics, compute
from companion.chapters.bilevel_hidden.experiment_path import PATH_SIZES, PathMetrics, compute_path
from companion.chapters.bilevel_hidden.story import claims
from companion.chapters.bilevel_hidden.story_path import path_claims, plot_path_images
from companion.chapters.bilevel_pictures import plot_starts

HIDDEN = Experiment(
    name="bilevel-hidden",
    chapter="03-bilevel",
    section="4.3",
    summary="bilevel reconstruction of a one-hidden-layer net from starts a/b/c, and the nulls of its distance",
    cost={"smoke": "10 s", "laptop": "1 min", "paper": "20 min"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures={"starts": plot_starts},
    paper_size={"width": PAPER_WIDTH},
)
PATH = Experiment(
    name="bilevel-hidden-path",
    chapter="03-bilevel",
    section="4.3",
    summary="the same attack by short steps: what the images look like while the distance falls",
    cost={"smoke": "3 s", "laptop": "30 s", "paper": "20 min"},
    sizes=PATH_SIZES,
    metrics=PathMetrics,
    compute=compute_path,
    claims=path_claims,
    figures={"images": plot_path_images},
    paper_size={"width": PAPER_WIDTH},
)
