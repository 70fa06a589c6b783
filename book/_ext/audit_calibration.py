"""How often an audit cries wolf, drawn from benchmarks/audit_calibration.json."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.chapters.pictures import PAGE, REFERENCE, SERIES, chart, ink
from recon_audit.scoring import LEVEL

#: label, colour, width of the line: what any test calls lies wide under what one kind calls
KINDS = {
    "either": ("any test", SERIES[0], 4.5),
    "membership": ("membership", SERIES[2], 1.8),
    "images": ("images", SERIES[1], 1.8),
}
WIDEST = 4 * LEVEL  # threshold


def alarms(networks: Sequence[dict[str, Any]], case: str, kind: str) -> np.ndarray:
    """Thresholds at which audits of these networks begin to call something, sorted; one for each
    network.

    It is the smallest p, already times the looks; 1 for an audit in which nothing was compared.

    Args:
        case: "own" or "null" images.
        kind: of KINDS.
    """
    names = ("images", "membership") if kind == "either" else (kind,)
    found = [[network[case][f"p_{name}"] for name in names] for network in networks]
    return np.sort([min((p for p in each if p is not None), default=1.0) for each in found])


@chart
def plot_calibration(networks: Sequence[dict[str, Any]]) -> Figure:
    """Share of audits that call something against the threshold of p: of images that nobody trained
    on, where that is an error, and of a network's own. The rule is at LEVEL.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 2.9))
    for kind, (label, colour, width) in KINDS.items():
        for ax, case in ((left, "null"), (right, "own")):
            p = alarms(networks, case, kind)
            share = np.arange(len(p) + 1) / len(p)
            ax.step(
                np.concatenate([[0.0], p]),
                share,
                where="post",
                color=colour,
                linewidth=width,
                label=label,
            )
    left.plot([0, WIDEST], [0, WIDEST], color=REFERENCE, linestyle="--", linewidth=1.2)
    left.text(0.16, 0.145, "allowed", color=ink(REFERENCE))
    _labelled(left, "images that nobody trained on", "share of audits: false alarms", WIDEST)
    _labelled(right, "a network's own images", "share of audits", 1.05)
    right.legend(loc="center right")
    return figure


def _labelled(ax: Axes, title: str, label: str, top: float) -> None:
    ax.axvline(LEVEL, color=REFERENCE, linewidth=1.0)
    ax.text(LEVEL * 1.04, top * 0.75, "the rule", color=ink(REFERENCE))
    ax.set(
        xlim=(0, WIDEST),
        ylim=(-0.015 * top, top),
        title=title,
        xlabel="threshold of p, all looks paid for",
        ylabel=label,
    )
