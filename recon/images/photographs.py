"""TRANSITION: `recon.images.photos` under its old name."""

from recon.images.photos import SIDE, at_side, patches

__all__ = ["SIDE", "at_side", "patches"]
