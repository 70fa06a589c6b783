"""Captions and alternative texts of the pages on gradients name networks, and count them: those that are drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from companion.chapters import ROOT, kept, load
from companion.chapters.leakage_attacks.story import drawn_networks
from companion.chapters.leakage_attacks.story_matching import classes_network
from companion.chapters.leakage_common import TABLE_1
from companion.chapters.published import PRE_TRAINED

PAGES = ("10-leakage-rank", "11-leakage-attacks", "c-gradients")
NAME = re.compile(r"\bCNN(\d) (V\d(?:(?:, | and )V\d)*)")
COUNTS = dict(
    zip(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], range(1, 11), strict=True)
)
COUNTED = re.compile(rf"\b({'|'.join(COUNTS)}|\d+) (?:\w+ )?networks\b")
#: of figures that draw some of their run's networks, which; of all others it is every one
SOME: dict[str, Callable[[Any], list[str]]] = {
    "grid": drawn_networks,
    "classes": lambda metrics: [classes_network(metrics)],
    "plot_tv": lambda metrics: [name for name, row in metrics.networks.items() if row.tv],
    "constrained": lambda _: ["CNN2 V2"],  # its one network is a size: see `test_the_network_of_the_hard_constraint`
    "plot_training": lambda metrics: list(metrics.trained),
    "plot_scores": lambda metrics: [name for name in metrics.networks if not name.endswith(PRE_TRAINED)],
    "plot_designs": lambda metrics: [row.name for row in metrics.designs],
}


def named(words: str) -> set[str]:
    """Networks that words name.

    >>> sorted(named("by CNN2 V1 and V2, and CNN4 V2"))
    ['CNN2 V1', 'CNN2 V2', 'CNN4 V2']
    """
    return {f"CNN{found[1]} {version}" for found in NAME.finditer(words) for version in re.findall(r"V\d", found[2])}


def counted(words: str) -> set[int]:
    """How many networks words say that there are.

    >>> sorted(counted("by eight networks, of 60 random networks, and the other five"))
    [8, 60]
    """
    return {COUNTS.get(found[1]) or int(found[1]) for found in COUNTED.finditer(words)}


def shown(name: str, called: str) -> Any:
    """The metrics of what a page shows: the kept run, or the one that it makes."""
    stored = kept(name) if called == "shown" else None
    return (stored[0] if stored else load(ROOT / "book" / "executed" / "results" / name, arrays=False)).metrics


def figures(page: Path) -> Iterator[tuple[str, str, Any]]:
    """(stem or function, caption and alternative text, metrics) of every figure of a page."""
    runs: dict[str, tuple[str, str]] = {}
    for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        runs |= {v: (n, f) for v, f, n in re.findall(r'^(\w+) = recon\.(run|shown)\("([\w-]+)"', source, re.MULTILINE)}
        words = cell["metadata"].get("mystnb", {})
        if "figure" in words:
            kind, by_stem, variable, stem = re.search(r'(?:(plot_\w+)|(drawn))\((\w+)(?:, "(\w+)")?', source).groups()
            told = f"{words['figure']['caption']} {words['image']['alt']}"
            yield (stem if by_stem else kind), told, shown(*runs[variable])


@pytest.mark.parametrize("page", PAGES)
def test_captions_name_and_count_the_networks_that_are_drawn(page):
    seen = 0
    for figure, told, metrics in figures(ROOT / "notebooks" / f"{page}.ipynb"):
        drawn = SOME[figure](metrics) if figure in SOME else list(metrics.networks)
        assert named(told) <= set(drawn), figure
        assert counted(told) <= {len(drawn)}, figure
        seen += 1
    assert seen >= 2


def test_a_network_that_is_not_drawn_is_seen():
    """The words that stood under a picture of CNN2 V1."""
    assert named("CNN4 V2 and the truck.") == {"CNN4 V2"} and not named("CNN4 V2 and the truck.") <= {"CNN2 V1"}
    assert counted("Eight rows, by three networks") == {3}


def test_a_grid_draws_the_networks_of_fewest_and_most_layers():
    names = drawn_networks(kept("leakage-attacks")[0].metrics)
    assert [TABLE_1[name].depth for name in names] == [1, 1, 3, 3]


def test_the_network_of_the_hard_constraint():
    assert kept("leakage-appendix")[0].made.config["constrained"] == "CNN2 V2"
