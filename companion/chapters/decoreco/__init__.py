"""Chapter 4, §4.4: DecoReco by the published recipe, from noise (a), from its tuned scale (b), from
photographs (c).
"""

from dataclasses import replace
from typing import Any

from companion.chapters.base import Experiment
from companion.chapters.decoreco import experiment, experiment_published, story

PAPER: dict[str, Any] = {
    "chapter": "04-decoreco",
    "section": "4.4",
    "paper_size": {"n_train": 500, "width": 1000},
}
RANDOM = Experiment.of(
    experiment,
    story,
    name="decoreco-random",
    summary="DecoReco from an untuned N(0, 1) start fails",
    cost="5 s, 1 min, five hours",
    **PAPER,
)
PARTITION = Experiment.of(
    experiment,
    story,
    metrics=experiment.PartitionMetrics,
    compute=experiment.compute_partition,
    claims=story.partition_claims,
    figures={"rows": story.plot_partition},
    selected=story.partition_selected,
    name="decoreco-partition",
    summary="DecoReco started from images that were never trained on",
    cost="5 s, 1 min, five hours",
    **PAPER,
)
PUBLISHED = Experiment.of(
    experiment_published,
    story,
    claims=story.published_claims,
    figures={"matches": story.plot_best, "ranked": story.plot_ranked},
    selected=story.published_selected,
    name="decoreco-published",
    summary=(
        "Fig. 8 by the published recipe, from the tuned scale of its start, with its full budget"
    ),
    cost="2 s, 20 s, three hours",
    **PAPER,
)
SECOND = replace(
    PUBLISHED,
    sizes=experiment_published.SECOND,
    claims=story.second_claims,
    name="decoreco-second",
    summary="Fig. 8 by run 2 of the published table: another step, start and smoothing",
)
