"""Chapter 7: whether the adversary can tell true reconstructions from false."""

from companion.chapters.base import Experiment
from companion.chapters.decoreco_adversary.experiment import SIZES, Metrics, compute
from companion.chapters.decoreco_adversary.story import FIGURES, claims

DECORECO_ADVERSARY = Experiment(
    name="decoreco-adversary",
    chapter="07-adversary",
    section="1",
    summary="can an adversary tell true from false reconstructions? over networks",
    cost={"smoke": "10 s", "laptop": "1 min", "paper": "35 min"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
    paper_size={"width": 1000},  # §1 and §5 name no number of images
)
