"""Other photographs of the pool are a null of every count of images on every page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from companion.chapters import ROOT, entries

BOOK = ROOT / "book"
KEPT = [*BOOK.glob("paper-size/**/result.json"), *BOOK.glob("seeds/**/result.json")]


def without(value: object, place: str = "") -> list[str]:
    """Tables that have a best null, as counts by thresholds of NCC, to which no photographs
    belong.
    """
    items = list(value.items() if isinstance(value, dict) else enumerate(value)) if value else []
    found = []
    if isinstance(value, dict) and "ncc_0.7" in value.get("best_null", ()):
        best, nulls = value["best_null"], value.get("nulls", {})
        counts = [nulls.get(name) for name in ("photographs", "photographs_2")]
        counts = [value["photographs"]] if "photographs" in value else counts
        if not all(count and all(count[by] <= best[by] for by in best) for count in counts):
            found.append(place)
    for key, inner in items:
        found += without(inner, f"{place}.{key}") if isinstance(inner, dict | list) else []
    return found


def metrics(file: Path) -> dict[str, object]:
    return json.loads(file.read_text(encoding="utf-8"))["metrics"]


@pytest.mark.parametrize("file", KEPT, ids=lambda file: "/".join(file.parts[-3:-1]))
def test_no_kept_count_is_without_other_photographs(file):
    assert without(metrics(file)) == []


@pytest.mark.parametrize("name", entries())
def test_no_count_of_todays_code_is_without_other_photographs(name, out, runs):
    runs(name)
    assert without(metrics(out / name / "result.json")) == []


def test_a_count_without_them_is_seen():
    count = {"ncc_0.7": 3}
    nulls = {"photographs": count, "photographs_2": {"ncc_0.7": 1}}
    good = {"rows": [{"best_null": count, "nulls": nulls}, {"best_null": count, **nulls}]}
    assert without(good) == []
    for changed in ({"nulls": {}}, {"best_null": {"ncc_0.7": 2}}):
        assert without({"rows": [good["rows"][0] | changed]}) == [".rows.0"]
    assert without([{"best_null": count}]) == [".0"]
