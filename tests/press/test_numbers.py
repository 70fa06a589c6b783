"""README.md and the landing page say what the result files say, and nothing is said that no file holds."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from recon.chapters import ROOT, load, registry
from recon.chapters.catalogue import CHECKS, PAPERS, Rounding, Row, catalogue
from recon.errors import ReconError
from recon.press.numbers import TEMPLATE, _line, ours_in_words, profile_of, rendered, write_readme
from recon.store.results import Claim

RESULTS = ROOT / "book" / "executed" / "results"
EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def test_the_readme_is_its_template_with_todays_numbers():
    template = (ROOT / TEMPLATE).read_text(encoding="utf-8")
    assert (ROOT / "README.md").read_text(encoding="utf-8") == rendered(template), "run `recon readme`"


def test_a_number_follows_its_result(tmp_path):
    """Another count in the file is another count in the text."""
    copy = tmp_path / "separation"
    shutil.copytree(RESULTS / "separation", copy)
    text = '{{ run("separation").metrics.matches.ncc_07 }}'
    before = rendered(text, ROOT, tmp_path)
    assert before == str(load(copy, arrays=False).metrics.matches.ncc_07)
    meta = json.loads((copy / "result.json").read_text())
    meta.pop("sha256", None)
    meta["metrics"]["matches"]["ncc_0.7"] = 12
    (copy / "result.json").write_text(json.dumps(meta))
    assert rendered(text, ROOT, tmp_path) == "12" != before


@pytest.mark.parametrize(
    "text",
    [
        '{{ run("separation").metrics.matches.nothing }}',
        '{{ run("nothing").metrics }}',
        '{{ paper("nothing").metrics }}',
        '{{ benchmark("nothing") }}',
        '{{ benchmark("leakage").nothing | number }}',
        '{{ claims("nothing") }}',
        "{{ nothing }}",
        "{% if %}",
    ],
)
def test_what_no_result_says_is_one_sentence(text):
    with pytest.raises(ReconError) as error:
        rendered(text)
    assert "\n" not in str(error.value)


def test_every_claim_is_in_the_readme_once():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.endswith("` |") and not line.startswith("| claim")]
    listed = catalogue(ROOT)
    assert len([row for row in rows if row.count(" | ") >= 5]) == sum(len(listed[paper]) for paper in PAPERS)


def test_a_claim_at_the_papers_size_stands_for_the_smaller_one():
    (line,) = rendered('{{ claims("hidden-random-noise") }}').splitlines()[2:]
    assert line.endswith("| reproduced | `bilevel-hidden --profile paper` |")


def test_the_landing_page_types_no_result():
    """What is left of it without its expressions has no count of images."""
    text = EXPRESSION.sub("", (ROOT / "book" / "index.md").read_text(encoding="utf-8"))
    assert not re.findall(r"\d+ of \d+|\d\.\d+ of", text)
    shown = rendered((ROOT / "book" / "index.md").read_text(encoding="utf-8"))
    first = load(RESULTS / "separation", arrays=False).metrics
    assert (
        "\n# Training data from trained weights\n" in shown
        and f"[{first.matches.ncc_07} of {first.n_train}]{{" in shown
    )


def test_the_readme_is_written_whole_or_not_at_all(tmp_path):
    shutil.copytree(ROOT / "book", tmp_path / "book", ignore=shutil.ignore_patterns("*.ipynb", "*.png"))
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    (tmp_path / TEMPLATE).write_text("{{ nothing }}")
    (tmp_path / "README.md").write_text("old")
    with pytest.raises(ReconError):
        write_readme(tmp_path)
    assert (tmp_path / "README.md").read_text() == "old"
    (tmp_path / TEMPLATE).write_text("{{ 1 | number }}")
    assert write_readme(tmp_path).read_text() == "1"


def a_row(profile, values, config=None):
    """A claim whose value differs between image sets."""
    first, *others = (Claim("c", "s", "", "", "12 images", "", "finding", v) for v in values)
    made = SimpleNamespace(profile=profile, config=config or {}, experiment="kkt-training")
    return Row(first, SimpleNamespace(made=made, metrics=None), "a-kkt-training", True, tuple(others))


def test_the_range_is_that_of_the_run_that_counts_or_says_whose_it_is():
    kept, alone = a_row("paper", (12, 9, 14)), a_row("paper", (12,))
    small = a_row("laptop", (3, 5, 4), {"n_train": 40})
    assert ours_in_words(kept, small) == "12 images (9 to 14 over 3 image sets)"
    assert ours_in_words(alone, small) == "12 images (the laptop run, n = 40: 3 to 5 over 3 image sets)"
    assert ours_in_words(alone) == ours_in_words(alone, a_row("laptop", (3,))) == "12 images"


def test_image_sets_that_differ_make_a_claim_mixed_whoever_is_first():
    row = a_row("paper", (12, 9, 14))
    other = replace(row.seeds[0], verdict="not reproduced")
    assert row.verdict_over_sets == a_row("paper", (12,)).verdict_over_sets == "finding"
    split = replace(row, seeds=(other, other))
    assert split.verdict == "mixed" and replace(split, claim=other, seeds=(row.claim, other)).verdict == "mixed"
    assert split.verdict_over_sets == "mixed (finding on 1, not reproduced on 2 of 3 image sets)"
    papers = replace(split, claim=replace(row.claim, section="4.4"), at_paper_size=False)
    assert papers.verdict == "undecided" and not papers.tested
    assert papers.verdict_over_sets.startswith("undecided (not tested at the paper's size; this run: mixed (finding on")
    assert "| mixed (finding on 1, not reproduced on 2 of 3 image sets) |" in _line(split, None)


@pytest.mark.parametrize(
    ("margins", "distance", "verdict"),
    [
        ((3.0, 4.0, 5.0), 4.0, "finding"),
        ((-3.0, -4.0, -5.0), -4.0, "finding"),
        ((0.1, 2.0, -1.0), 0.24, "undecided"),  # nearer to the threshold than it spreads
        ((2.0, 2.0, 2.0), 99.0, "finding"),
        ((2.0,), None, "finding"),
        ((None, None, None), None, "finding"),
    ],
)
def test_a_claim_is_undecided_nearer_to_its_threshold_than_its_spread(margins, distance, verdict):
    row = a_row("paper", margins)
    claims = [replace(each, margin=margin) for each, margin in zip((row.claim, *row.seeds), margins, strict=True)]
    row = replace(row, claim=claims[0], seeds=tuple(claims[1:]))
    assert row.verdict == verdict
    assert row.distance == (None if distance is None else pytest.approx(distance, abs=0.01))


def test_an_identity_is_a_check_unless_it_breaks():
    row = a_row("paper", (12, 9))
    row = replace(row, claim=replace(row.claim, id=CHECKS[0]))
    assert row.verdict == "check"
    assert replace(row, seeds=(replace(row.claim, verdict="not reproduced"),)).verdict == "mixed"
    assert set(CHECKS) <= {name for paper in PAPERS for name in catalogue(ROOT)[paper]}


def test_a_row_names_the_profile_that_has_its_sizes_today():
    """A run kept as `laptop` before that was made smaller is given by the command that repeats it."""
    sizes = {profile: asdict(each) for profile, each in registry()["separation-size"].sizes.items()}
    assert sizes["laptop"] != sizes["paper"]
    assert profile_of("separation-size", sizes["paper"], "laptop") == "paper"
    assert profile_of("separation-size", sizes["laptop"], "laptop") == "laptop"
    assert profile_of("separation-size", {"ns": (7,)}, "laptop") == "laptop"  # none has them


def test_a_claim_that_holds_on_one_processor_only_is_no_headline(monkeypatch):
    turned = Rounding({"hidden-random-noise": {"partly": 2, "finding": 1}}, "AMD", "Intel", {}, 172)
    assert turned.holds("hidden-random-noise") is False and turned.holds("linear-8bit") is None
    assert "one processor only: partly under 2, finding under 1" in turned.in_words("hidden-random-noise")
    monkeypatch.setattr("recon.press.numbers.rounding", lambda root: turned)
    with pytest.raises(ReconError, match="'hidden-random-noise' holds on one processor only: it is no headline"):
        rendered('{{ claims("hidden-random-noise") }}')
    assert "hidden-random-noise" not in rendered('{{ other_claims("hidden-random-noise") }}')


def test_what_is_the_same_everywhere_is_said_so():
    measured = Rounding({"a": {"finding": 3}, "b": {"partly": 1}}, "AMD", "Intel", {"b": ["partly", "finding"]}, 2)
    assert measured.holds("a") and measured.in_words("a") == "the same under 3 arithmetics, on AMD and Intel"
    assert measured.holds("b") is False and "partly on AMD, finding on Intel" in measured.in_words("b")
    assert measured.in_words("c") == "not measured"
