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
)
HIDDEN = Experiment.of(
    experiment_hidden,
    story,
    claims=story.hidden_claims,
    name="bilevel-hidden",
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
)
SHARED = Experiment.of(
    experiment_shared,
    story,
    claims=story.shared_claims,
    name="bilevel-hidden-shared",
)
