"""What holds of every result whatever the arithmetic: numbers are finite, rates are rates, counts
add up.

`broken` walks over the metrics and applies each rule wherever a table has the fields that it speaks
of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

NCC = ("ncc_0.5", "ncc_0.6", "ncc_0.7", "ncc_0.8")
#: names of numbers in [0, 1], and in [-1, 1]
RATE = re.compile(
    r"(auc|accuracy|train_accuracy|test_accuracy|p_value|fdr|tpr_\w+|precision\w*|recall\w*|share_of_\w+|brier"
    r"|ssim_share|cells_converged|nearer_to_partition|outside_box|reach|known_left)$"
)
CORRELATION = re.compile(
    r"(ncc|\w+_ncc|ncc_to_\w+|cosine|rank_correlation|nn_train_ssim|null_ncc)$"
)
POSITIVE = re.compile(
    r"(mse|distance_\w+|moved_l2|nn_\w+_l2|\w+_rank|rank|\w+seconds|kkt_residual\w*|theta_norm|n_train)$"
)
EDGE = 1e-5  # of float32 at the ends of a range


def broken(metrics: dict[str, Any]) -> list[str]:
    """Places at which a rule does not hold, with the rule; of `excess`, which holds differences of
    counts, none is.
    """
    found = [(path, table) for path, table in tables(metrics) if "excess" not in path]
    return [f"{path}: {rule}" for path, table in found for rule in faults(table)]


def tables(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a JSON value, with its place."""
    if isinstance(value, dict):
        yield path, value
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield from tables(inner, f"{path}.{key}".lstrip("."))


def faults(table: dict[str, Any]) -> Iterator[str]:
    """The rules that one table breaks."""
    for name, leaf in table.items():
        for number in flat(leaf):
            if not math.isfinite(number):
                yield f"{name} is not finite"
            for names, low, high in ((RATE, 0, 1), (CORRELATION, -1, 1), (POSITIVE, 0, math.inf)):
                if names.fullmatch(name) and not low - EDGE <= number <= high + EDGE:
                    yield f"{name} = {number} is not in [{low}, {high}]"
    for name, rule in RULES.items():
        if not rule(table):
            yield name


def flat(leaf: Any) -> Iterator[float]:
    """The numbers of a leaf or of lists of them."""
    if isinstance(leaf, list):
        for each in leaf:
            yield from flat(each)
    elif isinstance(leaf, int | float) and not isinstance(leaf, bool):
        yield leaf


def has(table: dict[str, Any], *names: str) -> bool:
    """Whether all these fields are there, and known."""
    return all(table.get(name) is not None for name in names)


def counts_fall(table: dict[str, Any]) -> bool:
    counts = [table[name] for name in NCC if isinstance(table.get(name), int)]
    return counts == sorted(counts, reverse=True) and min(counts, default=0) >= 0


def best_null_is_the_largest(table: dict[str, Any]) -> bool:
    if not has(table, "nulls", "best_null", "best_null_name"):
        return True
    nulls, best, names = table["nulls"], table["best_null"], table["best_null_name"]
    return all(
        count == max(each[by] for each in nulls.values()) == nulls[names[by]][by]
        for by, count in best.items()
    )


def excess_is_above_the_best_null(table: dict[str, Any]) -> bool:
    if not has(table, "matches", "best_null", "excess"):
        return True
    return all(
        table["excess"][by] == table["matches"][by] - table["best_null"][by]
        for by in table["excess"]
    )


def no_more_matches_than_images(table: dict[str, Any]) -> bool:
    if not has(table, "matches", "n_train") or not isinstance(table["matches"], dict):
        return True
    return max(flat(list(table["matches"].values()))) <= table["n_train"]


def fdr_is_decoys_over_targets(table: dict[str, Any]) -> bool:
    if not has(table, "targets", "decoys", "fdr"):
        return True
    return math.isclose(
        table["fdr"], min(1.0, (table["decoys"] + 1) / max(table["targets"], 1)), rel_tol=1e-6
    )


def converged_is_a_fall_below_one_percent(table: dict[str, Any]) -> bool:
    both = table.get("converged") is True and isinstance(table.get("fell"), float)
    return not both or table["fell"] < 0.01


def true_ones_are_among_all(table: dict[str, Any]) -> bool:
    return (
        not has(table, "candidates", "true", "sure")
        or max(table["true"], table["sure"]) <= table["candidates"]
    )


def steps_grow_along_a_list(table: dict[str, Any]) -> bool:
    lists = [
        leaf
        for leaf in table.values()
        if isinstance(leaf, list) and leaf and isinstance(leaf[0], dict)
    ]
    steps = [
        [row["step"] for row in rows]
        for rows in lists
        if all(isinstance(row.get("step"), int) for row in rows)
    ]
    return all(each == sorted(each) for each in steps)


RULES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "fewer match above a higher threshold": counts_fall,
    "best_null is the largest null, and best_null_name says whose": best_null_is_the_largest,
    "excess = matches - best_null": excess_is_above_the_best_null,
    "no more matches than images": no_more_matches_than_images,
    "fdr = (decoys + 1) / targets": fdr_is_decoys_over_targets,
    "converged: fell by less than 1 %": converged_is_a_fall_below_one_percent,
    "true and sure ones are candidates": true_ones_are_among_all,
    "steps grow along a list": steps_grow_along_a_list,
}
