"""Figures: `plot_*(result, ax=None)` functions that see results, never models."""
