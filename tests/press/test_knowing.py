"""The map of knowing: each point is what a result file says, shares are beyond the null, and no cell is made up."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import map_parts
import matplotlib.pyplot as plt
import pytest
from claim_parts import Sources

from recon.analysis.privacy_bounds import least_error
from recon.chapters import ROOT
from recon.chapters.architectures.metrics import SimulatedNet
from recon.errors import ReconError
from recon.press.knowing import KNOWLEDGE, RANKED, READERS, Point, found_in, noisy, points, told
from recon.press.knowing.figures import plot_map, side_by_side

RESULTS = ROOT / "book" / "executed" / "results"
SOURCES = Sources(ROOT, RESULTS, [])
ALL = points(ROOT, RESULTS)


def point(**given) -> Point:
    about = {"experiment": "separation", "knowledge": KNOWLEDGE[0], "told": 2.0, "network": "dense", "unknown": 10}
    return Point(**(about | {"found": 6, "null": 2} | given))


def of(experiment: str) -> list[Point]:
    return [each for each in ALL if each.experiment == experiment]


def raw(name: str) -> dict:
    kept = ROOT / "book" / "paper-size" / name / "result.json"
    return json.loads((kept if kept.is_file() else RESULTS / name / "result.json").read_text())


def test_a_share_is_beyond_the_null_and_never_negative():
    assert point().share == 0.4 and point(found=1, null=5).share == 0 and point(found=10, null=0).share == 1
    assert all(0 <= each.share <= 1 and each.told > 0 for each in ALL)


def test_told_counts_numbers_for_each_that_is_missing():
    assert told(3073, 500) == pytest.approx(3073 / 1_536_000) and told(640, 1, 64) == 10


def test_every_experiment_and_every_kind_of_knowledge_has_a_point():
    assert {each.experiment for each in ALL} == set(READERS)
    assert {each.knowledge for each in ALL} == set(KNOWLEDGE)


def test_counts_are_those_of_the_result_files():
    metrics = raw("separation")["metrics"]
    (one,) = of("separation")
    assert (one.found, one.null) == (metrics["matches"]["ncc_0.7"], metrics["best_null"]["ncc_0.7"])
    assert one.sure <= metrics["certainty"]["networks"]["n = 100"]["sure"] and one.told == pytest.approx(
        13.26, abs=0.01
    )
    cells = [c for c in raw("separation-recipes")["metrics"]["cells"] if c["known"] == "known"]
    starts = [each for each in of("separation-recipes") if each.knowledge == "weights, start"]
    assert [each.found for each in starts] == [c["matches"]["ncc_0.7"] for c in cells] and all(e.kept for e in starts)
    gradients = raw("leakage-identifiability")["metrics"]
    assert sum(each.others for each in of("leakage-identifiability")) == sum(
        about["counts"]["determined"] == 0
        for about in gradients.values()
        if isinstance(about, dict) and "counts" in about
    )


def test_both_runs_of_simulated_training_are_on_the_map():
    kept = json.loads((ROOT / "book" / "paper-size" / "architectures-simulated" / "result.json").read_text())["metrics"]
    here = json.loads((RESULTS / "architectures-simulated" / "result.json").read_text())["metrics"]
    marks = of("architectures-simulated")
    assert [each.unknown for each in marks] == [kept["n_train"]] * len(kept["nets"]) + [here["n_train"]] * len(
        here["nets"]
    )
    assert {each.network for each in marks} == {"one to three convolutions", "residual block"}
    assert all(
        each.sure is None for each in READERS["architectures-simulated"](simulated(residual=0.001, rank=None), {})
    )
    (doubtful,) = READERS["architectures-simulated"](simulated(residual=0.5, rank=None), {})
    (certain,) = READERS["architectures-simulated"](simulated(residual=0.001, rank=96), {})
    assert (doubtful.sure, certain.sure) == (0, 2)


def simulated(residual: float, rank: int | None) -> SimpleNamespace:
    net = SimulatedNet(
        name="a", kind="convolutions", activation="tanh", pooled=False, by_batch=False, parameters=200, unknowns=96,
        loss_init=1.0, loss=0.5, moved=0.1, residual_matched=1.0, residual=residual, found_matched=0, found=2,
        nulls={"means": 0}, mse=0.0, grey_mse=0.1, rank=rank, expected_error=None if rank is None else 0.01,
    )  # fmt: skip
    return SimpleNamespace(nets=[net], n_train=2)


def test_gradient_matching_finds_what_is_near_beside_grey():
    methods = {name: SimpleNamespace(mse=[0.009, 0.011, None]) for name in ("cosine_tv_both", "hybrid")}
    metrics = SimpleNamespace(networks={"CNN2 V1": SimpleNamespace(methods=methods)}, grey=[0.1, 0.1, 0.1])
    assert [(each.found, each.unknown) for each in READERS["leakage-matching"](metrics, {})] == [(1, 3)] * 2


def test_a_design_is_sure_of_what_is_found_and_known():
    design = SimpleNamespace(equations=300, unknowns=100, found=[True, True, False], known=[True, False, True])
    (only,) = READERS["leakage-designs"](SimpleNamespace(designs=[design]), {})
    assert (only.told, only.found, only.sure, only.unknown) == (3.0, 2, 1, 3)


def test_deeper_networks_are_told_their_own_weights():
    first, *_, last = of("architectures-dense")
    metrics = raw("architectures-dense")["metrics"]
    width, n = metrics["width"], metrics["n_train"]
    assert first.told * n * 3072 == pytest.approx(3072 * width + width + width**2 + width)
    assert last.told * n * 3072 == pytest.approx(3072 * width + width + width**2 + 10 * width)
    asked = [a for net in metrics["nets"] for a in net["attacks"]]
    assert [e.found for e in of("architectures-dense")] == [a["matches"]["ncc_0.7"] for a in asked]
    assert [e.knowledge == "weights, start" for e in of("architectures-dense")] == [
        a["known"] == "the start is known" for a in asked
    ]


def test_all_images_but_one_is_told_of_one_image():
    assert {round(each.told, 2) for each in of("informed-linear")} == {1.0}


def test_where_the_null_has_no_error_none_can_be_gone():
    cell = SimpleNamespace(error=0.0, null_error=0.0, parameters=58, n_train=10, dim=192, model="random features")
    (only,) = READERS["seed-law"](SimpleNamespace(cells=[cell]), {})
    assert only.found == 0
    cell.null_error = 0.5
    (only,) = READERS["seed-law"](SimpleNamespace(cells=[cell]), {})
    assert only.found == 10 and not only.counted


def test_a_start_that_outweighs_training_is_what_the_result_says():
    moved = {net["width"]: net["moved"] for net in raw("seed")["metrics"]["nets"]}
    assert all(each.kept for each in of("seed")) == (max(moved.values()) < 1)


def test_retraining_and_simulating_are_told_the_recipe_too():
    assert {each.knowledge for each in of("informed-linear")} == {"weights, all images but one"}
    assert {each.knowledge for each in of("informed-reader")} == {"weights, all images but one, start and recipe"}
    assert {each.knowledge for each in of("architectures-simulated")} == {"weights, start, labels and recipe"}


def test_an_error_of_the_size_of_the_start_is_not_its_distribution():
    drawn = [
        (net["n_train"], net["distribution"]["matches"]["ncc_0.7"])
        for net in raw("seed-distribution")["metrics"]["nets"]
    ]
    assert [(each.unknown, each.found) for each in of("seed-distribution")] == drawn
    assert "weights, distribution" not in {each.knowledge for each in of("seed")}


def test_where_evidence_is_ranked_nobody_counts_as_sure():
    assert set(RANKED) <= set(READERS) and all(each.sure is None for name in RANKED for each in of(name))


def test_a_missing_result_is_one_sentence(tmp_path):
    shutil.copytree(ROOT / "book" / "paper-size", tmp_path / "book" / "paper-size")
    with pytest.raises(ReconError):
        points(tmp_path, tmp_path / "none")


def test_the_kept_run_comes_first():
    assert found_in(ROOT, RESULTS, "linear").made.profile == "paper"
    assert found_in(ROOT, Path("nowhere"), "linear").made.profile == "paper"


# ---------------------------------------------------------------------------------------------------------- pages


def test_a_cell_by_hand():
    here = [point(sure=3), point(found=2, null=2, sure=2), point(found=9, null=0, unknown=10, others=True)]
    count, best, none, sure, others, chapters = map_parts.cell(here)
    assert (count, best, none, sure, others) == ("3", "9 of 10 (null 0)", "1", "3 of 6", "other images fit 1 of them")
    assert chapters == "[6](executed/06-separation)"
    assert map_parts.cell([]) == ("none", "", "", "", "", "")
    count, _, _, sure, bound, _ = map_parts.cell([point(experiment="decoreco-tuned"), point(experiment="seed", sure=3)])
    assert (count, bound) == ("2", "none known")
    assert sure == "3 of 6; ranked in [12](executed/07-adversary), [19](executed/g-seed)"
    assert map_parts.cell([point()])[3] == "not asked"


def test_an_error_is_not_passed_off_as_images():
    assert map_parts.best_of([point(counted=False, found=5, null=0)]) == "50% of the error"
    assert map_parts.best_of([point(counted=False, found=10, null=0), point()]) == "6 of 10 (null 2)"
    assert map_parts.best_of([point(found=1)]) == "none"


def test_the_tables_have_a_row_for_every_cell():
    rows = map_parts.table(SOURCES).splitlines()[2:]
    assert len(rows) == len(KNOWLEDGE) * len(map_parts.BINS) and all(row.count("|") == 9 for row in rows)
    tried = [int(count) for row in rows if (count := row.split(" | ")[2]).isdecimal()]
    assert sum(tried) == len(ALL)
    output, prior = raw("informed-output")["metrics"]["budgets"], raw("leakage-prior")["metrics"]["noise"]
    assert len(rows_of("knowing-noise")) == len(raw("informed-sgd")["metrics"]["noises"])
    assert len(rows_of("knowing-noise-weights")) == len({row["ratio"] for row in output})
    assert len(rows_of("knowing-noise-gradient")) == 1 + len({row["z"] for rows in prior.values() for row in rows})


def rows_of(part: str) -> list[list[str]]:
    """Cells, without the head."""
    return [row.strip("| ").split(" | ") for row in map_parts.PARTS[part](SOURCES).splitlines()[2:]]


def test_networks_with_noise_are_in_the_table_of_noise_and_not_on_the_map():
    cells = raw("separation-recipes")["metrics"]["cells"]
    disturbed = [cell for cell in cells if cell["cell"].startswith("noise ") or "DP-SGD" in cell["cell"]]
    families = ("decay", "start", "stop", "defence")
    assert len(of("separation-recipes")) == sum(c["family"] in families for c in cells) - len(disturbed)
    counts = {cell["cell"]: f"{cell['matches']['ncc_0.7']} of {cell['n_train']}" for cell in disturbed}
    rows = rows_of("knowing-noise-network")
    assert {name: found for name, found, *_ in rows if name in counts} == counts and len(counts) == 7
    assert [name for name, *_ in rows if name not in counts] == [
        "base, without noise", "small start, short, without noise"
    ]  # fmt: skip
    assert noisy("noise 1 on the weights") and not noisy("20 % of labels wrong")


def test_noise_on_a_gradient_is_said_beside_grey():
    metrics = raw("leakage-prior")["metrics"]
    first, last = rows_of("knowing-noise-gradient")[0], rows_of("knowing-noise-gradient")[-1]
    assert first[0] == "0.01" and "" in [each.strip() for each in first] and last[0] == "mean photograph"
    row = SimpleNamespace(mse=[0.1, 0.4], predicted=[0.1, 0.1])
    assert map_parts.over_grey(row, [1.0, 1.0]) == "0.2 (0.1)" and map_parts.over_grey(None, [1.0]) == ""
    assert len(first) == 1 + len(metrics["grey"])


def test_what_the_page_says_of_the_bound_that_is_passed():
    """The smallest budget of the largest images: the attack, and weights that never saw the image, are below it; the
    attack is worth nothing beside the nearest other image."""
    first, *_, last = rows_of("knowing-noise-weights")
    attack, _, placebo, null, bound = map(float, first[1:])
    assert null < attack < bound and placebo < bound
    assert bound == pytest.approx(least_error(0.01, 1), abs=5e-3) and last[-1] == "under 0.001"


def test_the_figure_has_every_point():
    figure = plot_map(ALL, *(found_in(ROOT, RESULTS, name).metrics for name in ("informed-output", "informed-sgd")))
    drawn = [line for ax in figure.axes for line in ax.lines if len(line.get_xdata()) == 1]
    assert len(drawn) == len(ALL)
    crosses = sum(line.get_marker() == "x" for line in drawn)
    assert crosses == sum(each.others for each in ALL)
    plt.close(figure)


def test_only_what_is_at_one_place_is_spread():
    assert side_by_side([1.0, 5.0]) == [1.0, 5.0]
    left, right = side_by_side([2.0, 2.0])
    assert left < 2 < right and left * right == pytest.approx(4)
