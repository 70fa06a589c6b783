"""TRANSITION: for `recon.chapters.plots.leakage`."""

from recon.chapters.pictures import NULL_LABELS  # noqa: F401
