"""Chapter 4, §4.4: DecoReco by the published recipe, from noise (a), from its tuned scale (b), from
photographs (c).
"""

from companion.chapters.base import Experiment
from companion.chapters.decoreco import experiment, experiment_published, story

RANDOM = Experiment.of(
    experiment,
    story,
    name="decoreco-random",
)
PARTITION = Experiment.of(
    experiment,
    story,
    compute=experiment.compute_partition,
    claims=story.partition_claims,
    figures={"rows": story.plot_partition},
    selected=story.partition_selected,
    name="decoreco-partition",
)
PUBLISHED = Experiment.of(
    experiment_published,
    story,
    claims=story.published_claims,
    figures={"matches": story.plot_best, "ranked": story.plot_ranked},
    selected=story.published_selected,
    name="decoreco-published",
)
