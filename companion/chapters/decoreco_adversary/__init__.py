"""Chapter 7: whether the adversary can tell true reconstructions from false."""

from companion.chapters.base import Experiment
from companion.chapters.decoreco_adversary import experiment, networks, story

DECORECO_ADVERSARY = Experiment.of(
    experiment,
    story,
    sizes=networks.SIZES,
    name="decoreco-adversary",
    chapter="07-adversary",
    section="1",
    summary="can an adversary tell true from false reconstructions? over networks",
    cost="10 s, 1 min, 35 min",
    paper_size={"width": 1000},
)
