"""The figure of chapter 3's live attack; that of the three starts is in `bilevel_pictures`."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.pictures import FREE, PAGE, TRAIN, chart, end_labels


@chart
def plot_toy(energies: Sequence[float], apart: Sequence[float]) -> Figure:
    """Of an attack, after every step and in units of its start: the distance of the weights from the released ones, and
    that of the images from the training images."""
    figure, ax = plt.subplots(figsize=(PAGE, 2.6))
    ends = []
    for values, words, colour in ((energies, "weights", TRAIN), (apart, "images", FREE)):
        shares = [value / values[0] for value in values]
        ax.semilogy(shares, color=colour)
        ends.append((shares[-1], words, colour))
    ax.set(xlabel="outer step", ylabel="squared distance, start = 1", xlim=(0, len(energies) - 1))
    end_labels(ax, ends)
    return figure
