"""Does a kept number come from the code beside it? What two minutes can tell, by doing it again.

A kept run is begun anew at its own size from its seed, and its trace (`recon.optim.trace`) must
agree with the kept one but for rounding; where the whole run is that short, its claims too. Where
its reconstructions are kept, they are scored anew.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from companion.chapters import ROOT, experiment, kept, kept_folder, kept_seeds, registry, sizes_at
from companion.chapters.base import Context, Experiment, Outcome
from companion.chapters.catalogue import NOTHING, REPLAYS, read_replays
from companion.store.checkpoints import Checkpoints
from companion.store.kept import RECONSTRUCTIONS, kept_reconstructions
from companion.store.record import record
from companion.store.results import TRACE, Result
from companion.store.sweep import sweep
from companion.store.time_limit import OutOfTime, time_limit
from recon.errors import ReconError
from recon.images.registry import load_pool
from recon.optim.trace import Trace, recorded
from recon.store.files import atomic_path

SECONDS = 120.0
#: relative difference that is put down to rounding, up to a step of a descent: at least five times
#: what another instruction set was seen to make (benchmarks/replays.py): 6e-5 at ten steps of
#: training on the logarithm of the loss, 0.09 at twenty
BANDS = {5: 1e-3, 10: 1e-2, 10_000_000: 0.5}
RESULT_BAND = 0.2  # of what a finished part of a run gives
PART = ": result"  # row of a trace: what one of several runs gave
#: of a network that is trained first: a start, and no part of what attacks it
NETWORK = re.compile(r"(net|network)?-?\d*: result")
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
        seconds: it took.
    """

    name: str
    seed: int
    kept_at: str
    by: str
    agrees: bool
    largest: float
    differences: tuple[str, ...]
    seconds: float


def replay(
    name: str, seed: int = 0, seconds: float = SECONDS, data_root: str | Path | None = None
) -> Replay:
    """Replay a kept result; ReconError where there is none, or not the images it was made with."""
    began = time.monotonic()
    stored, chosen = kept(name, seed), experiment(name)
    pool = load_pool(stored.made.data.name, data_root)
    if pool.sha256 != stored.made.data.sha256:
        raise ReconError(
            f"the kept run of {name} was made with other images than those of {pool.name} here"
        )
    with TemporaryDirectory() as folder:
        several = partial(sweep, folder=Path(folder))
        context = Context(pool, torch.device("cpu"), seed, Checkpoints(Path(folder)), several)
        reconstructions = _reconstructions(chosen, seed)
        differences = list(_scores(chosen, stored, context, reconstructions))
        trace = Trace()
        computed = _outcome(chosen, stored, context, trace, seconds)
    known = {
        key.removeprefix(TRACE): rows
        for key, rows in stored.arrays.items()
        if key.startswith(TRACE)
    }
    differences += differing_traces(known, trace.rows)
    if computed is not None:
        differences += _differing_claims(chosen, stored, computed)
    compared = known.keys() & trace.rows.keys()
    parts = {
        "start": bool(compared),
        "scores": reconstructions is not None,
        "a part": any(name.endswith(PART) and not NETWORK.fullmatch(name) for name in compared),
    }
    by = (
        "whole"
        if computed is not None
        else " and ".join([name for name, done in parts.items() if done][:2])
    )
    return Replay(
        name=name,
        seed=seed,
        kept_at=stored.made.commit,
        by=by or NOTHING,
        agrees=bool(by) and not differences,
        largest=max((share for _, share in shares(known, trace.rows)), default=0.0),
        differences=tuple(differences),
        seconds=round(time.monotonic() - began, 1),
    )


def write_replays(replays: Iterable[Replay], root: Path = ROOT) -> None:
    """Put these in the place of what book/replays.json says of the same results."""
    rows = {(row["name"], row["seed"]): row for row in read_replays(root)}
    rows |= {(again.name, again.seed): asdict(again) for again in replays}
    ordered = [rows[place] for place in every_kept() if place in rows]
    with atomic_path(root / REPLAYS) as temporary:
        temporary.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def every_kept() -> list[tuple[str, int]]:
    """(experiment, seed) of all results that the book keeps."""
    return [(name, seed) for name in registry() for seed in kept_seeds(name)]


def of_this_week(count: int = 4) -> list[tuple[str, int]]:
    """`count` of them, others each week, all in turn."""
    everything = every_kept()
    first = count * (date.today().toordinal() // 7) % len(everything)
    return (everything + everything)[first : first + count]


def _outcome(
    chosen: Experiment[Any, Any],
    stored: Result[Any],
    context: Context,
    trace: Trace,
    seconds: float,
) -> Outcome[Any] | None:
    """The run, begun anew; None where the time was too short for all of it."""
    torch.set_flush_denormal(True)
    try:
        with recorded(trace), time_limit(seconds):
            return chosen.compute(sizes_at(stored, chosen), context)
    except OutOfTime:
        return None


def differing_traces(known: Mapping[str, Tensor], again: Mapping[str, Tensor]) -> Iterator[str]:
    """A sentence for each row of two traces, name -> (k, 2) of step and number, that differs by
    more than rounding explains at its first such step.
    """
    seen = set()
    for (name, step, before, now), share in shares(known, again):
        if share > 1 and name not in seen:
            seen.add(name)
            yield f"{name}, step {step:.0f}: {now:.6g} instead of {before:.6g}"


def shares(
    known: Mapping[str, Tensor], again: Mapping[str, Tensor]
) -> Iterator[tuple[tuple[str, float, float, float], float]]:
    """Of what both traces have: (name, step, number before and now), and by which share of its band
    they differ.
    """
    for name in sorted(known.keys() & again.keys()):
        for (step, before), (_, now) in zip(
            known[name].tolist(), again[name].tolist(), strict=False
        ):
            band = (
                RESULT_BAND
                if name.endswith(PART)
                else next(b for last, b in BANDS.items() if step <= last)
            )
            apart = abs(now - before)
            share = 0.0 if apart <= TINY else apart / (band * max(abs(before), abs(now)))
            yield (name, step, before, now), share


def close(before: float, now: float, band: float) -> bool:
    """Whether two numbers differ by no more than a share `band` of the larger, or both are
    rounding.

    >>> close(1.0, 1.01, 0.02), close(1.0, 1.1, 0.02), close(1e-12, 0.0, 0.02)
    (True, False, True)
    """
    return math.isclose(before, now, rel_tol=band, abs_tol=TINY)


def _reconstructions(chosen: Experiment[Any, Any], seed: int) -> Tensor | None:
    """Those that are kept of a run, where its experiment can score them."""
    folder = kept_folder(chosen.name, seed)
    if chosen.rescored is None or not (folder / RECONSTRUCTIONS).is_file():
        return None
    return kept_reconstructions(folder)[0]


def _scores(
    chosen: Experiment[Any, Any], stored: Result[Any], context: Context, x_hat: Tensor | None
) -> Iterator[str]:
    """A sentence for each score of the kept reconstructions that is not the kept one."""
    if chosen.rescored is not None and x_hat is not None:
        scores = record(chosen.rescored(sizes_at(stored, chosen), context, x_hat))
        yield from _differing(record(stored.metrics), scores, "")


def _differing(before: Any, now: Any, place: str) -> Iterator[str]:
    """Numbers of `now`, at the same places in `before`, which may have more, equal but for the
    rounding of what is kept.
    """
    if isinstance(now, Mapping):
        for name, value in now.items():
            yield from _differing(before[name], value, f"{place}.{name}".lstrip("."))
    elif isinstance(now, list):
        for number, (old, new) in enumerate(zip(before, now, strict=False)):
            yield from _differing(old, new, f"{place}.{number}")
    else:
        least = ROUNDED_L2 if isinstance(now, float) else AT_THRESHOLD
        if not math.isclose(before, now, rel_tol=SCORE_BAND, abs_tol=least):
            yield f"{place}: {now:.6g} instead of {before:.6g}"


def _differing_claims(
    chosen: Experiment[Any, Any], stored: Result[Any], outcome: Outcome[Any]
) -> Iterable[str]:
    """Of a run that was done again from end to end: claims with another verdict, or another
    number.
    """
    metrics = chosen.metrics(record(outcome.metrics))
    again = {claim.id: claim for claim in chosen.claims(metrics, sizes_at(stored, chosen))}
    for claim in stored.claims:
        now = again[claim.id]
        if now.verdict != claim.verdict:
            yield f"{claim.id}: {now.verdict} instead of {claim.verdict}"
        if (
            claim.value is not None
            and now.value is not None
            and not close(claim.value, now.value, RESULT_BAND)
        ):
            yield f"{claim.id}: {now.value:.6g} instead of {claim.value:.6g}"
