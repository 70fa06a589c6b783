"""TRANSITION: the old name of `recon.chapters.common` and `recon.chapters.tables`."""

from recon.chapters.common import (  # noqa: F401
    LAYER_1,
    Centred,
    ReleasedNet,
    match_table,
    nulls_of,
    ranks,
    train_released,
)
from recon.chapters.tables import NULL_NAMES, best_text  # noqa: F401
