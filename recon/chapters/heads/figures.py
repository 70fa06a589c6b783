"""Figures of the chapter on heads."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from recon.chapters.heads.metrics import Metrics
from recon.store.results import Result

FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {}
