"""Does a kept number come from the code beside it? What two minutes can tell, by doing it again.

A kept run is begun anew at its own size from its seed, and its trace (`recon.optim.trace`) must
agree with the kept one but for rounding; where the whole run is that short, its claims too. Where
its reconstructions are kept, they are scored anew.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from itertools import dropwhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from companion.chapters import ROOT, entries, experiment, kept, kept_folder, kept_seeds, sizes_at
from companion.chapters.base import Context
from companion.chapters.catalogue import NOTHING, REPLAYS, read_replays
from companion.store.checkpoints import Checkpoints
from companion.store.kept import RECONSTRUCTIONS, kept_reconstructions
from companion.store.record import record
from companion.store.results import Claim, traces
from companion.store.sweep import sweep
from companion.store.time_limit import OutOfTime, time_limit
from recon.errors import ReconError
from recon.images.registry import load_pool
from recon.optim.trace import Trace, recorded
from recon.store.files import atomic_path

SECONDS = 120.0
A_WEEK = 4  # results that are done again
#: relative difference that is put down to rounding, up to a step of a descent: at least five times
#: what another instruction set was seen to make (benchmarks/replays.py): 6e-5 at ten steps of
#: training on the logarithm of the loss, 0.09 at twenty
BANDS = {5: 1e-3, 10: 1e-2, 10_000_000: 0.5}
RESULT_BAND = 0.2  # of what a finished part of a run gives
#: of what begins after a network was trained, whose weights rounding has moved: at least five times
#: what another processor was seen to make, 0.03
AFTER_TRAINING_BAND = 0.2
TRAINING = re.compile(r".*training( \d+)?")
PART = ": result"  # row of a trace: what one of several runs gave
#: of a network that is trained first: a start, and no part of what attacks it
NETWORK = re.compile(r"(net|network)?-?\d*: result")
#: experiment -> rows that rounding decides, which are not compared: what is left after an inner
#: training that a thousand steps do not finish (2.38, 2.53 and 3.05 under three instruction sets)
DECIDED_BY_ROUNDING = {"bilevel-hidden-shared": re.compile("(random|partition): .*")}
#: of a score of reconstructions that are kept in 8 bits: the share by which it may differ, and by
#: how much at least: half a grey level in each of 3,072 numbers is a distance of 0.06, and one
#: image may be at a threshold
SCORE_BAND, ROUNDED_L2, AT_THRESHOLD = 0.02, 0.06, 1
TINY = 1e-9  # below which a number is rounding


@dataclass(frozen=True)
class Replay:
    """What was done again of a kept result.

    Attributes:
        kept_at: its commit.
        by: "whole", "start and scores", "start and a part", "start", "scores" or "nothing".
        largest: difference of a row of the trace, as a share of the band that it may differ by.
        differences: what did not agree, a sentence each.
    """

    name: str
    seed: int
    kept_at: str
    by: str
    agrees: bool
    largest: float
    differences: tuple[str, ...]


def replay(name: str, seed: int = 0, seconds: float = SECONDS) -> Replay:
    """Replay a kept result; ReconError where there is none, or not the images it was made with."""
    stored = kept(name, seed)
    chosen = experiment(name)
    sizes = sizes_at(stored, chosen)
    pool = load_pool(stored.made.data.name)
    if pool.sha256 != stored.made.data.sha256:
        raise ReconError(
            f"the kept run of {name} was made with other images than those of {pool.name} here"
        )
    before = traces(stored.arrays)
    if rounding := DECIDED_BY_ROUNDING.get(name):
        before = {row: before[row] for row in before if not rounding.fullmatch(row)}
    differences: list[str] = []
    trace, done = Trace(), []
    with TemporaryDirectory() as folder:
        several = partial(sweep, folder=Path(folder))
        context = Context(pool, torch.device("cpu"), seed, Checkpoints(Path(folder)), several)
        if chosen.rescored and (kept_folder(name, seed) / RECONSTRUCTIONS).is_file():
            x_hat = kept_reconstructions(kept_folder(name, seed))
            scores = record(chosen.rescored(sizes, context, x_hat))
            differences += differing_scores(record(stored.metrics), scores)
            done.append("scores")
        torch.set_flush_denormal(True)
        outcome = None
        with suppress(OutOfTime), recorded(trace), time_limit(seconds):
            outcome = chosen.compute(sizes, context)
    differences += differing_traces(before, trace.rows)
    compared = before.keys() & trace.rows.keys()
    if compared:
        done.insert(0, "start")
    if any(row.endswith(PART) and not NETWORK.fullmatch(row) for row in compared):
        done.append("a part")
    if outcome is not None:
        done = ["whole"]
        again = chosen.claims(chosen.metrics(record(outcome.metrics)), sizes)
        differences += _differing_claims(stored.claims, again)
    largest = max((share for *_, share in shares(before, trace.rows)), default=0.0)
    by, different = " and ".join(done[:2]) or NOTHING, tuple(differences)
    agrees = bool(done) and not different
    return Replay(name, seed, stored.made.commit, by, agrees, largest, different)


def write_replays(replays: Iterable[Replay], root: Path = ROOT) -> None:
    """Put these in the place of what book/replays.json says of the same results."""
    table = [*read_replays(root), *map(asdict, replays)]
    rows = {(row["name"], row["seed"]): row for row in table}
    with atomic_path(root / REPLAYS) as temporary:
        ordered = [rows[place] for place in sorted(rows)]
        temporary.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def every_kept() -> list[tuple[str, int]]:
    """(experiment, seed) of all results that the book keeps."""
    return [(name, seed) for name in entries() for seed in kept_seeds(name)]


def of_this_week() -> list[tuple[str, int]]:
    """`A_WEEK` of them, others each week."""
    return random.Random(date.today().toordinal() // 7).sample(every_kept(), A_WEEK)


def differing_traces(before: Mapping[str, Tensor], now: Mapping[str, Tensor]) -> list[str]:
    """A sentence for each row of two traces, name -> (k, 2) of step and number, that differs by
    more than rounding explains at its first such step.
    """
    sentences: dict[str, str] = {}
    for name, step, old, new, share in shares(before, now):
        if share > 1:
            sentences.setdefault(name, f"{name}, step {step:.0f}: {new:.6g} instead of {old:.6g}")
    return list(sentences.values())


def shares(
    before: Mapping[str, Tensor], now: Mapping[str, Tensor]
) -> Iterator[tuple[str, float, float, float, float]]:
    """Of what both traces have: name, step, number before and now, and by which share of its band
    they differ. Names are in the order in which they came.
    """
    since_training = dropwhile(lambda row: not TRAINING.fullmatch(row), now)
    moved = {row for row in since_training if not TRAINING.fullmatch(row)}
    for name in sorted(before.keys() & now.keys()):
        for (step, old), (_, new) in zip(before[name].tolist(), now[name].tolist(), strict=False):
            band = next(band for last, band in BANDS.items() if step <= last)
            if name.endswith(PART):
                band = RESULT_BAND
            elif name in moved:
                band = max(band, AFTER_TRAINING_BAND)
            difference = abs(new - old)
            share = difference / (band * max(abs(old), abs(new))) if difference > TINY else 0.0
            yield name, step, old, new, share


def differing_scores(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """A sentence for each number of `now` that differs, but for the rounding of what is kept, from
    the one at the same place in `before`, which may have more.
    """
    if isinstance(now, Mapping):
        for name, value in now.items():
            yield from differing_scores(before[name], value, f"{place}.{name}".lstrip("."))
    elif isinstance(now, list):
        for number, (old, new) in enumerate(zip(before, now, strict=False)):
            yield from differing_scores(old, new, f"{place}.{number}")
    else:
        least = ROUNDED_L2 if isinstance(now, float) else AT_THRESHOLD
        if not math.isclose(before, now, rel_tol=SCORE_BAND, abs_tol=least):
            yield f"{place}: {now:.6g} instead of {before:.6g}"


def _differing_claims(before: Iterable[Claim], now: Iterable[Claim]) -> Iterator[str]:
    """Of a run that was done again from end to end: claims with another verdict or number."""
    again = {claim.id: claim for claim in now}
    for old in before:
        new = again[old.id]
        close = math.isclose(old.value or 0.0, new.value or 0.0, rel_tol=RESULT_BAND, abs_tol=TINY)
        if new.verdict != old.verdict or not close:
            yield f"{old.id}: {new.verdict}, {new.value} instead of {old.verdict}, {old.value}"
