"""Every figure is drawn alike of a kept run and of a small one, and says which run it shows."""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import pytest
from audit_calibration import plot_calibration
from bars import bars, plot_bars

from companion.chapters import ROOT, entries, experiment, kept, kept_seeds
from companion.store.results import FIGURE

KEPT = [(name, stem) for name in entries() if kept_seeds(name) for stem in experiment(name).figures]


def words(figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


@pytest.mark.parametrize(("name", "stem"), KEPT)
def test_a_figure_of_a_kept_run_is_drawn_from_what_is_kept(name, stem):
    figure = experiment(name).figures[stem](kept(name))
    assert any(text.startswith("kept run: ") for text in words(figure))
    plt.close("all")


@pytest.mark.parametrize("name", entries())
def test_a_figure_of_a_small_run_needs_no_other_arrays_than_are_kept(name, runs):
    result = runs(name)
    if name != "separation":  # never kept: its figures may take any array
        for key in [key for key in result.arrays if not key.startswith(FIGURE)]:
            del result.arrays[key]
    for plot in experiment(name).figures.values():
        assert any(text.startswith("this run: profile smoke") for text in words(plot(result)))
        plt.close("all")


def test_the_other_figures_of_the_book_are_drawn():
    report = json.loads((ROOT / "benchmarks" / "audit_calibration.json").read_text("utf-8"))
    assert plot_calibration(report["networks"]).axes
    five = bars(ROOT)
    assert len(five) == 5 and all(0 <= bar.null <= 1 and 0 <= bar.found <= 1 for bar in five)
    assert plot_bars(five).axes
    plt.close("all")
