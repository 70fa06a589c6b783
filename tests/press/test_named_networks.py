"""Captions and alternative texts of kept figures on gradients name networks, and count them: those
that are drawn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from companion.chapters import ROOT, kept
from companion.chapters.leakage_attacks.story import drawn_networks
from companion.chapters.leakage_attacks.story_matching import classes_network
from companion.chapters.leakage_common import TABLE_1
from companion.chapters.published import PRE_TRAINED

PAGES = ("10-leakage-rank", "11-leakage-attacks", "c-gradients")
NAME = re.compile(r"\bCNN(\d) (V\d(?:(?:, | and )V\d)*)")
COUNTS = dict(
    zip(
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
        range(1, 11),
        strict=True,
    )
)
COUNTED = re.compile(rf"\b({'|'.join(COUNTS)}|\d+) (?:\w+ )?networks\b")
#: of figures that draw some of their run's networks, which; of all others it is every one
SOME: dict[str, Callable[[Any], list[str]]] = {
    "plot_grid": drawn_networks,
    "plot_classes": lambda metrics: [classes_network(metrics)],
    "plot_constrained": lambda _: [kept("leakage-appendix").made.config["constrained"]],
    "plot_training": lambda metrics: list(metrics.trained),
    "plot_scores": lambda metrics: [
        name for name in metrics.networks if not name.endswith(PRE_TRAINED)
    ],
    "plot_designs": lambda metrics: [row.name for row in metrics.designs],
}


def named(words: str) -> set[str]:
    """Networks that words name.

    >>> sorted(named("by CNN2 V1 and V2, and CNN4 V2"))
    ['CNN2 V1', 'CNN2 V2', 'CNN4 V2']
    """
    return {
        f"CNN{found[1]} {version}"
        for found in NAME.finditer(words)
        for version in re.findall(r"V\d", found[2])
    }


def counted(words: str) -> set[int]:
    """How many networks words say that there are.

    >>> sorted(counted("by eight networks, of 60 random networks, and the other five"))
    [8, 60]
    """
    return {COUNTS.get(found[1]) or int(found[1]) for found in COUNTED.finditer(words)}


def figures(page: Path) -> Iterator[tuple[str, str, list[str]]]:
    """(function, caption and alternative text, networks that are drawn) of every figure of a page;
    the figure of a run of the reader's own draws what its profile says: none that can be named.
    """
    runs: dict[str, str] = {}
    for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
        source, words = "".join(cell["source"]), cell["metadata"].get("mystnb", {})
        runs |= dict(re.findall(r'^(\w+) = recon\.kept\("([\w-]+)"', source, re.MULTILINE))
        if "figure" in words:
            function, variable = re.search(r"(plot_\w+)\((\w+)\)", source).groups()
            metrics = kept(runs[variable]).metrics if variable in runs else None
            drawn = (
                SOME[function](metrics)
                if metrics and function in SOME
                else metrics and list(metrics.networks)
            )
            yield function, f"{words['figure']['caption']} {words['image']['alt']}", drawn or []


@pytest.mark.parametrize("page", PAGES)
def test_captions_name_and_count_the_networks_that_are_drawn(page):
    told = list(figures(ROOT / "notebooks" / f"{page}.ipynb"))
    for function, words, drawn in told:
        assert named(words) <= set(drawn) and counted(words) <= {len(drawn)}, function
    assert sum(bool(drawn) for *_, drawn in told) >= 1 and not all(drawn for *_, drawn in told)


def test_a_network_that_is_not_drawn_is_seen():
    """The words that stood under a picture of CNN2 V1."""
    assert named("CNN4 V2 and the truck.") == {"CNN4 V2"} and not named(
        "CNN4 V2 and the truck."
    ) <= {"CNN2 V1"}
    assert counted("Eight rows, by three networks") == {3}


def test_a_grid_draws_the_networks_of_fewest_and_most_layers():
    names = drawn_networks(kept("leakage-attacks").metrics)
    assert [TABLE_1[name].depth for name in names] == [1, 1, 3, 3]
