"""Chapter 7: whether the adversary can tell true reconstructions from false."""

from companion.chapters.base import Experiment
from companion.chapters.decoreco_adversary import experiment, networks, story

DECORECO_ADVERSARY = Experiment.of(
    experiment,
    story,
    sizes=networks.SIZES,
    name="decoreco-adversary",
)
