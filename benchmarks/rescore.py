"""Scores that today's code has and a kept run lacks: `python benchmarks/rescore.py [NAME/SEED …]`
writes them into its result.json.

What is kept in 8 bits is scored anew by the experiment's own `rescored`. The slopes of the bilevel
attacks are those of the eight results and held-out images that figures keep; a run without figures
begins again from noise, at the kept sizes, and must end where the kept run did.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch  # noqa: E402

from companion.chapters import experiment, kept_folder, sizes_at, with_claims  # noqa: E402
from companion.chapters.base import Context  # noqa: E402
from companion.chapters.bilevel import experiment_affine, experiment_hidden  # noqa: E402
from companion.chapters.bilevel.common import images_of, measure, slopes, start_of  # noqa: E402
from companion.chapters.replay import every_kept  # noqa: E402
from companion.store.checkpoints import Checkpoints  # noqa: E402
from companion.store.kept import RECONSTRUCTIONS, kept_arrays, kept_reconstructions  # noqa: E402
from companion.store.record import Record, record  # noqa: E402
from companion.store.results import Result, as_json, load_result, read_json  # noqa: E402
from companion.store.sweep import sweep  # noqa: E402
from recon.attacks.bilevel import BilevelAttack  # noqa: E402
from recon.attacks.reconstruct import reconstruct  # noqa: E402
from recon.images.registry import load_pool  # noqa: E402
from recon.optim.descent import HeavyBall  # noqa: E402


def merged(before: Any, now: Any) -> Any:
    """`before` with what `now` has beside it, at every depth; its own numbers stay."""
    if not isinstance(before, dict):
        return before
    more = {name: value for name, value in now.items() if name not in before}
    shared = {name: merged(before[name], now[name]) for name in now.keys() & before.keys()}
    return {**before, **shared, **more}


def from_noise(name: str, sizes: Any, context: Context) -> tuple[torch.Tensor, Any]:
    """What the attack makes of noise, and the images of the run."""
    if name == "bilevel-hidden":
        images = images_of(sizes, context, torch.float32)
        nets = experiment_hidden.networks(sizes, context, images.dim, 1)
        row = experiment_hidden.row_unit(sizes, context, nets, "uniform random 0")
        return row["x_hat"], images
    images = images_of(sizes, context, torch.float64)
    released = experiment_affine.trained(images.train, images.y, sizes.weight_decay)
    x_init = start_of(images, "random", context.stream("affine.start"))[None]
    descent = HeavyBall(sizes.step_size, sizes.momentum, tol=sizes.tol, box=experiment_affine.BOX)
    attack = BilevelAttack(released, descent)
    return reconstruct(attack, x_init, sizes.steps, sizes.tol).x_hat[0], images


def bilevel_scores(name: str, metrics: Record, sizes: Any, context: Context) -> Record:
    """The slopes; AssertionError where the attack ends elsewhere than the kept one."""
    if "figure.random" in (shown := kept_arrays(kept_folder(name, context.seed))):
        few = (shown[f"figure.{kind}"].double() / 255 for kind in ("random", "null"))
        return Record(slope=slopes(*few, context.pool.shape))
    x_hat, images = from_noise(name, sizes, context)
    ended = metrics.random if name == "bilevel-affine" else metrics.inner_start.uniform.random
    again = measure(x_hat, x_hat, images).nn_train_l2
    assert abs(again - ended.nn_train_l2) < 0.01 * again, (again, ended.nn_train_l2)
    return Record(slope=slopes(x_hat, images.held_out, images.shape))


def rescore(name: str, seed: int) -> None:
    """One kept result, in place, judged by today's rules."""
    chosen, folder = experiment(name), kept_folder(name, seed)
    stored: Result[Any] = load_result(folder, chosen.metrics, arrays=False)
    sizes, pool = sizes_at(stored, chosen), load_pool(stored.made.data.name)
    with TemporaryDirectory() as temporary:
        place = Path(temporary)
        context = Context(
            pool,
            torch.device("cpu"),
            seed,
            Checkpoints(place),
            lambda *given, **named: sweep(*given, **named, folder=place),
        )
        if name in ("bilevel-affine", "bilevel-hidden"):
            scores = bilevel_scores(name, stored.metrics, sizes, context)
        else:
            assert chosen.rescored is not None
            scores = record(chosen.rescored(sizes, context, kept_reconstructions(folder)[0]))
    metrics = chosen.metrics(record(merged(record(stored.metrics), scores)))
    result = with_claims(replace(stored, metrics=metrics), chosen)
    sha256 = read_json(folder / "result.json").get("arrays_sha256")
    (folder / "result.json").write_text(as_json(result, sha256), encoding="utf-8")
    print(name, seed, {claim.id: claim.verdict for claim in result.claims}, flush=True)


if __name__ == "__main__":
    for name, seed in every_kept():
        there = kept_folder(name, seed) / RECONSTRUCTIONS
        if f"{name}/{seed}" in sys.argv[1:] or (not sys.argv[1:] and there.is_file()):
            rescore(name, seed)
