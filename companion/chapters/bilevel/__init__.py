"""Chapter 3, §4.3 of Runkel et al. (2024): bilevel reconstruction of an affine classifier, eq. (8),
and of a one-hidden-layer network, eq. (9).
"""

from companion.chapters.base import Experiment
from companion.chapters.bilevel import (
    experiment_affine,
    experiment_hidden,
    experiment_shared,
    story,
)

AFFINE = Experiment.of(
    experiment_affine,
    story,
    name="bilevel-affine",
    chapter="03-bilevel",
    section="4.3",
    summary="bilevel reconstruction of an affine classifier from starts a/b/c",
    cost="3 s, 10 s, minutes",
)
HIDDEN = Experiment.of(
    experiment_hidden,
    story,
    claims=story.hidden_claims,
    name="bilevel-hidden",
    chapter="03-bilevel",
    section="4.3",
    summary=(
        "bilevel reconstruction of a one-hidden-layer net from starts a/b/c, and the nulls of its"
        " distance"
    ),
    cost="10 s, 1 min, 20 min",
    paper_size={"width": experiment_hidden.PAPER_WIDTH},
)
PATH = Experiment.of(
    experiment_hidden,
    story,
    sizes=experiment_hidden.PATH_SIZES,
    metrics=experiment_hidden.PathMetrics,
    compute=experiment_hidden.compute_path,
    claims=story.path_claims,
    figures={"images": story.plot_path_images},
    selected=story.path_selected,
    name="bilevel-hidden-path",
    chapter="03-bilevel",
    section="4.3",
    summary="the same attack by short steps: what the images look like while the distance falls",
    cost="3 s, 30 s, 20 min",
    paper_size={"width": experiment_hidden.PAPER_WIDTH},
)
SHARED = Experiment.of(
    experiment_shared,
    story,
    claims=story.shared_claims,
    name="bilevel-hidden-shared",
    chapter="03-bilevel",
    section="4.3",
    summary=(
        "the one-hidden-layer net again, where released and inner training share a start from"
        " U(0, 1)"
    ),
    cost="3 s, 30 s, 5 min",
    paper_size={"width": experiment_hidden.PAPER_WIDTH},
)
