"""Chapter 4, §4.3 of Runkel et al. (2024), eq. (9): bilevel reconstruction of a one-hidden-layer network."""

from recon.chapters.base import Experiment
from recon.chapters.bilevel_hidden.claims import claims, hypergradient_claims, path_claims, slope_claims
from recon.chapters.bilevel_hidden.compute import compute
from recon.chapters.bilevel_hidden.compute_hypergradient import compute_hypergradient
from recon.chapters.bilevel_hidden.compute_path import compute_path
from recon.chapters.bilevel_hidden.compute_slopes import compute_slopes
from recon.chapters.bilevel_hidden.figures import (
    plot_cosines,
    plot_distances,
    plot_path_images,
    plot_paths,
    plot_slopes,
)
from recon.chapters.bilevel_hidden.metrics import HypergradientMetrics, Metrics, PathMetrics, SlopeMetrics
from recon.chapters.bilevel_hidden.sizes import HYPERGRADIENT_SIZES, PAPER_WIDTH, PATH_SIZES, SIZES, SLOPE_SIZES
from recon.chapters.bilevel_pictures import plot_starts

HIDDEN = Experiment(
    name="bilevel-hidden",
    chapter="03-bilevel",
    section="4.3",
    summary="bilevel reconstruction of a one-hidden-layer net, and what Table 1's average can mean",
    cost={"smoke": "10 s", "laptop": "1 min", "paper": "20 min"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures={"starts": plot_starts, "distances": plot_distances},
    paper_size={"width": PAPER_WIDTH},
)
HYPERGRADIENT = Experiment(
    name="bilevel-hypergradient",
    chapter="03-bilevel",
    section="4.2",
    summary="hypergradients of ReLU nets against finite differences, and whether their error matters",
    cost={"smoke": "5 s", "laptop": "1 min", "paper": "1 min"},
    sizes=HYPERGRADIENT_SIZES,
    metrics=HypergradientMetrics,
    compute=compute_hypergradient,
    claims=hypergradient_claims,
    figures={"cosines": plot_cosines},
    on_gpu=False,
)
SLOPES = Experiment(
    name="bilevel-slopes",
    chapter="03-bilevel",
    section="4.2",
    summary="the same at the paper's width: what the distance does a step away, and what was predicted",
    cost={"smoke": "3 s", "laptop": "20 s", "paper": "15 min"},
    sizes=SLOPE_SIZES,
    metrics=SlopeMetrics,
    compute=compute_slopes,
    claims=slope_claims,
    figures={"slopes": plot_slopes},
    on_gpu=False,
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
    figures={"paths": plot_paths, "images": plot_path_images},
    paper_size={"width": PAPER_WIDTH},
)
