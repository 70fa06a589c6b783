"""Every experiment keeps the contract: a chapter, costs and sizes, checked overrides, a result
found again; and what is published can be read and says what today's code says of it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from companion.chapters import ROOT, entries, experiment, load, sizes_of, uses
from companion.chapters.claims import texts
from companion.chapters.replay import every_kept
from companion.chapters.run import folder_of, run, too_few
from companion.chapters.uses import experiments_that_use
from companion.press.html import toc_files
from companion.store.record import Record
from companion.store.results import read_json
from recon.errors import ReconError
from recon.images.registry import load_pool
from tests.records import replace

PROFILES = ("smoke", "laptop", "paper")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PUBLISHED = sorted(
    file.parent
    for where in ("book/executed/results", "book/paper-size", "book/seeds")
    for file in (ROOT / where).rglob("result.json")
)
SMALL = {"name": "collapse", "profile": "smoke", "data": "photos", "device": "cpu"}


def test_the_experiments_cover_the_chapters():
    notebooks = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    chapters = [entry.chapter for entry in entries().values()]
    others = {"07-adversary"}  # judges results of chapters 4 and 6
    assert {*chapters} == notebooks - others and chapters == sorted(chapters)


def test_lists_have_no_rows_of_what_is_gone():
    def rows(place: str) -> Any:
        return json.loads((ROOT / place).read_text(encoding="utf-8"))

    pages = {f"{page}.html" for page in toc_files(ROOT / "_toc.yml")}
    assert rows("benchmarks/pages.json")["pages"].keys() <= pages
    assert rows("benchmarks/replays.json")["share_of_the_band"].keys() <= entries().keys()
    replays = {(row["name"], row["seed"]) for row in rows("book/replays.json")}
    assert replays <= set(every_kept())


def cells(page: Path) -> list[dict]:
    return json.loads(page.read_text(encoding="utf-8"))["cells"]


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_every_attack_is_written_out_and_held_against_the_packages(page):
    """But for the first two chapters, which construct, a shown cell asserts that what the page
    computes is the package's, and says so.
    """
    asserts = []
    for cell in cells(page):
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            hidden = {"solution", "lays-out"} & set(cell["metadata"].get("tags", []))
            held = "package" in source and re.search(r"^ *assert ", source, re.MULTILINE)
            asserts.append(bool(held and not hidden))
    assert any(asserts) == (page.stem[:2] not in ("01", "02"))


@pytest.mark.parametrize("command", ["list", "claims"])
def test_what_only_prints_loads_no_torch(command):
    code = (
        f"import sys, recon.cli; recon.cli.main(['{command}']); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("place", "these", "others"),
    [
        ("recon.attacks.separation", "separation heads-members fine-tunes", "linear leakage-rank"),
        ("recon.attacks.by_published_recipe", "decoreco-random landscape-recipe", "adapters"),
        ("recon.attacks.from_weights", "decoreco-published", "separation bilevel-hidden"),
        ("recon.attacks.haim_recipe", "decoreco-partition", "bilevel-affine leakage-attacks"),
        ("recon.attacks.by_cosine_tv", "leakage-weights", "leakage-attacks leakage-designs"),
        ("recon.attacks.gradient_matching", "leakage-attacks leakage-designs", "leakage-rank"),
        ("recon.attacks.gradient_matching.GEIPING_DESCENT", "leakage-designs", "leakage-attacks"),
        ("recon.attacks.by_hybrid", "leakage-weights leakage-appendix", "leakage-attacks"),
        ("recon.attacks.by_gauss_newton", "leakage-rank leakage-designs", "leakage-appendix"),
        ("recon.attacks.batches", "leakage-batches leakage-defences", "leakage-attacks"),
        ("recon.attacks.rgap", "leakage-defences leakage-identifiability", "leakage-batches"),
        ("recon.attacks.adapters", "adapters", "fine-tunes leakage-rank"),
        ("recon.attacks.bilevel", "bilevel-affine landscape-bilevel", "bilevel-hidden heads"),
        ("recon.attacks.bilevel_span", "bilevel-hidden-path", "bilevel-affine landscape-bilevel"),
        ("recon.attacks.heads", "heads heads-gallery adapters", "separation leakage-rank"),
        ("recon.attacks.fine_tunes", "fine-tunes", "heads adapters"),
        ("recon.attacks.tv_min", "leakage-weights", "leakage-attacks"),
        ("recon.attacks", "separation adapters leakage-rank bilevel-affine", "linear collapse"),
        ("companion.chapters.linear.story", "linear", "collapse"),
    ],
)
def test_the_experiments_that_use_a_definition_are_listed(place, these, others):
    without = set(entries()) - {*others.split()}
    assert set(these.split()) <= set(experiments_that_use(place)) <= without


def test_a_package_that_is_imported_whole_stands_for_what_it_passes_on(tmp_path, monkeypatch):
    files = {
        "recon/attacks/__init__.py": "from recon.attacks.a import by_a",
        "recon/attacks/a.py": "def by_a(): return 1",
        "recon/user.py": "from recon import attacks\ndef use(): return attacks.by_a()",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(uses, "ROOT", tmp_path)
    places = uses._places.__wrapped__()
    way = ["recon.user.use", "recon.user.attacks", "recon.attacks", "recon.attacks.by_a"]
    assert all(there in places[here] for here, there in pairwise([*way, "recon.attacks.a.by_a"]))


def test_a_place_that_there_is_not_is_named():
    with pytest.raises(ReconError, match="no 'recon.attacks.nothing'"):
        experiments_that_use("recon.attacks.nothing")


@pytest.mark.parametrize("name", ["decoreco-random"])
def test_no_function_that_a_run_calls_is_missed(name, tmp_path):
    called = set()
    assert experiment(name)  # what its imports call is no part of the run
    sys.setprofile(lambda frame, event, _: called.add(frame.f_code) if event == "call" else None)
    try:
        run(name, profile="smoke", data="photos", device="cpu", out=tmp_path)
    finally:
        sys.setprofile(None)
    places, ours = set(), {ROOT / "recon", ROOT / "companion"}  # and no environment that lies there
    for code in called:
        file, function = Path(code.co_filename), code.co_qualname.partition(".")[0]
        if ours & {*file.parents} and file.stem != "__init__" and function.isidentifier():
            places.add(".".join([*file.relative_to(ROOT).with_suffix("").parts, function]))
    assert len(places) > 50
    assert [place for place in sorted(places) if name not in experiments_that_use(place)] == []


@pytest.mark.parametrize("name", entries())
def test_costs_sizes_and_figures_of_an_experiment(name):
    chosen = experiment(name)
    assert chosen.name == name and len(entries()[name].cost.split(", ")) == len(PROFILES)
    assert tuple(chosen.sizes) == PROFILES
    sizes = {field.name for field in fields(chosen.sizes["paper"])}
    assert entries()[name].paper_size.keys() <= sizes
    assert len({type(sizes) for sizes in chosen.sizes.values()}) == 1
    assert issubclass(chosen.metrics, Record) and chosen.metrics.__doc__
    assert callable(chosen.compute) and callable(chosen.claims) and isinstance(chosen.figures, dict)


def test_sizes_are_checked_and_fields_of_fields_replaced():
    chosen = experiment("separation")
    with pytest.raises(ReconError, match="did you mean 'n_train'"):
        sizes_of(chosen, "smoke", {"n_trainx": 1})
    with pytest.raises(ReconError, match="cannot be 'nonsense'"):
        sizes_of(chosen, "smoke", {"n_train": "nonsense"})
    with pytest.raises(ReconError, match="unknown profile 'huge'"):
        sizes_of(chosen, "huge", {})
    found = sizes_of(chosen, "smoke", {"attack.restarts": "7"})
    assert found == replace(
        chosen.sizes["smoke"], attack=replace(chosen.sizes["smoke"].attack, restarts=7)
    )
    with pytest.raises(ReconError, match="no size 'n_train.x': did you mean 'n_train'"):
        sizes_of(chosen, "smoke", {"n_train.x": 1})


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def result(out):
    return run(**SMALL, out=out)


def test_a_run_gives_typed_metrics_and_tensors_on_the_cpu(result):
    assert isinstance(result.metrics, experiment("collapse").metrics) and result.claims
    assert result.arrays and all(
        isinstance(x, torch.Tensor) and x.device.type == "cpu" for x in result.arrays.values()
    )
    assert result.made.data.name == "photos" and "not CIFAR-10" in result.made.data.notice
    assert result.made.config == asdict(experiment("collapse").sizes["smoke"])


def test_where_the_bundled_photographs_are_too_few_the_sizes_are_those_of_smoke():
    """`make book` without a network: separation asks for more of them than there are."""
    pool = load_pool("photos")
    sizes = experiment("separation").sizes
    assert too_few(pool, sizes["laptop"], 0) and not too_few(pool, sizes["smoke"], 0)


def test_images_of_another_shape_are_bad_input(tmp_path):
    with pytest.raises(
        ReconError, match=r"needs images of shape \(3, 32, 32\), and those of digits"
    ):
        run("leakage-rank", profile="smoke", data="digits", device="cpu", out=tmp_path)


def test_a_second_run_is_found_on_disk(result, out, monkeypatch):
    def computed(chosen, config, context):
        raise RuntimeError("computed")

    monkeypatch.setattr("companion.chapters.run._computed", computed)
    again = run(**SMALL, out=out)
    assert again.metrics == result.metrics and again.made == result.made
    assert all(torch.equal(again.array(name), array) for name, array in result.arrays.items())
    field = fields(experiment("collapse").sizes["smoke"])[0].name
    sizes = {field: getattr(experiment("collapse").sizes["smoke"], field) + 2}
    for changed in (sizes, {"seed": 1}):
        with pytest.raises(RuntimeError, match="computed"):
            run(**SMALL, out=out, **changed)


def test_a_result_at_sizes_of_ones_own_lies_in_a_folder_of_its_own(result, out):
    other = replace(result, made=replace(result.made, key="k", overrides={"n": 3}))
    assert folder_of(other, out) == out / "collapse-k"
    assert folder_of(result, out) == out / "collapse"


@pytest.mark.parametrize(
    "folder", PUBLISHED, ids=lambda folder: str(Path(folder).relative_to(ROOT / "book"))
)
def test_a_published_result_has_its_types_and_the_claims_that_are_stored(folder):
    """Where a rule has changed on purpose, `recon readme` stores what it says."""
    result, stored = load(folder, arrays=False), read_json(folder / "result.json")
    assert type(result.metrics) is experiment(stored["experiment"]).metrics
    assert stored["data"]["name"] == "cifar10" and stored["profile"] in ("laptop", "paper")
    for claim, before in zip(result.claims, stored["claims"], strict=True):
        assert {**before, **texts()[claim.id]} == asdict(claim)
