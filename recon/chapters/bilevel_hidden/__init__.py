"""Chapter 4, §4.3 of Runkel et al. (2024), eq. (9): bilevel reconstruction of a one-hidden-layer network."""

from recon.chapters.base import Experiment
from recon.chapters.bilevel_hidden.claims import claims
from recon.chapters.bilevel_hidden.compute import compute
from recon.chapters.bilevel_hidden.figures import plot_distances
from recon.chapters.bilevel_hidden.metrics import Metrics
from recon.chapters.bilevel_hidden.sizes import SIZES
from recon.chapters.bilevel_pictures import plot_starts

HIDDEN = Experiment(
    name="bilevel-hidden",
    chapter="04-bilevel-hidden",
    section="4.3",
    summary="bilevel reconstruction of a one-hidden-layer net, and what Table 1's average can mean",
    cost={"smoke": "10 s", "laptop": "2 min", "paper": "an hour"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures={"starts": plot_starts, "distances": plot_distances},
    paper_size={"width": 6144},
)
