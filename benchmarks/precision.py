"""The published recipe in float64, in float32, and with rounded products: `python benchmarks/precision.py`.

n = 100, width 1000, the first steps from N(0, 1) and from the tuned scale: energies, and how alike the candidates are.
`bfloat16_product_differs` is the relative error of one product: about 1e-3 where the processor multiplies in bfloat16,
and rounding of float32 where it does not and PyTorch stays in float32.  "bfloat16" asks for such products,
"operands" rounds them on any processor (`companion.chapters.reference_common.RoundedProducts`).

Last, the same recipe begun at the training images, for as many steps as it takes to leave them: does it leave them
because its products are rounded?  `moved` is how far an image is from its start, relative to its norm.

`python benchmarks/precision.py kept` measures anew which arithmetic the kept runs of chapter 4 with 500 images had that
asked for "bfloat16", which a processor may refuse: the shares of the layers that their starts leave, as kept, and here
in float32 and with rounded operands, and how far apart these two are after the first steps.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from timing import one_by_one, write

from companion.chapters.base import Context
from companion.chapters.reference_common import STARTS, RoundedProducts, start_images, train_reference
from recon.attacks.haim_recipe import PublishedSettings, marks, products_in, recover_as_published
from recon.images.registry import load_pool
from recon.nets.gram import layer_norms
from recon.released import Weights
from recon.scoring.matching import one_to_one
from recon.store.checkpoints import Checkpoints

N, WIDTH, STEPS, LEAVING = 100, 1000, 100, 10_000
KEPT = {"random": "decoreco-random", "partition": "decoreco-partition"}
KINDS = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.float32, "operands": torch.float32}


def row(weights: Weights, start: str, kind: str, images) -> tuple[dict, torch.Tensor]:
    settings = PublishedSettings(2 * N, STEPS, STARTS[start], "bfloat16" if kind == "bfloat16" else "float32")
    began = time.process_time()
    with RoundedProducts() if kind == "operands" else nullcontext():
        found = recover_as_published(weights.to(dtype=KINDS[kind]), settings, torch.Generator().manual_seed(0))
    x_hat = found.x_hat[0].double()
    score = one_to_one(images.train.double(), x_hat).score
    return {
        "energy": found.energy.item(),
        "by_layer": found.accepted["trace"][-1, :3].tolist(),
        "above_0.5": int((score > 0.5).sum()),
        "above_0.6": int((score > 0.6).sum()),
        "cpu_seconds_a_step": (time.process_time() - began) / STEPS,
    }, x_hat


def leaving(weights: Weights, images) -> dict[str, dict]:
    """Where the recipe is after `LEAVING` steps from the training images, with exact and with rounded products."""
    found = {}
    for kind in ("float32", "operands"):
        with RoundedProducts() if kind == "operands" else nullcontext():
            settings, draw = PublishedSettings(N, LEAVING), torch.Generator().manual_seed(0)
            run = recover_as_published(weights, settings, draw, x_init=images.train)
        trace = run.accepted["trace"]
        found[kind] = {
            "step": list(marks(LEAVING)[-20:]),
            "moved": [round(v, 4) for v in trace[-20:, -1].tolist()],
            "layer_1": [round(v, 4) for v in trace[-20:, 0].tolist()],
        }
    return found


def product_differs() -> float:
    """‖A B in bfloat16 − A B in float32‖ / ‖A B‖ of two random matrices."""
    a, b = torch.randn(2, 512, 512, generator=torch.Generator().manual_seed(0))
    exact = a @ b
    with products_in("bfloat16"):
        found = a @ b
    return ((found - exact).norm() / exact.norm()).item()


def kept(steps: int = 5) -> dict[str, dict]:
    """The kept runs from two starts beside the first `steps` of the same, in float32 and with rounded operands."""
    root, rows = Path(__file__).parents[1] / "book" / "paper-size", {}
    with TemporaryDirectory() as folder:
        context = Context(load_pool("cifar10"), torch.device("cpu"), 0, Checkpoints(Path(folder)), one_by_one)
        images = context.images(500)
        weights, net = train_reference(context, images, WIDTH)
    norms = layer_norms(weights.network, weights.params)
    for start, name in KEPT.items():
        metrics = json.loads((root / name / "result.json").read_text())["metrics"]
        arm, its_net = metrics["variants"]["reference"], metrics["reference_net"]
        x_init = start_images(context, images) if start == "partition" else None
        found, at = {}, {}
        for kind in ("float32", "operands"):
            began = time.process_time()
            with RoundedProducts() if kind == "operands" else nullcontext():
                settings = PublishedSettings(1000, steps, STARTS.get(start, 0.0))
                run = recover_as_published(weights, settings, context.stream("kkt.attack"), x_init=x_init)
            trace, at[kind] = run.accepted["trace"], run.x_hat[0]
            found[kind] = {
                "start_share": (trace[marks(steps).index(1), :3] / norms).tolist(),
                "share": (trace[-1, :3] / norms).tolist(),
                "cpu_seconds_a_step": (time.process_time() - began) / steps,
            }
        apart = (at["operands"] - at["float32"]).norm(dim=1) / (at["float32"] - run.accepted["x_init"][0]).norm(dim=1)
        rows[start] = {
            "as_kept": {
                "start_share": arm["start_share"],
                "log_loss": its_net["log_loss"],
            },
            **found,
            "log_loss": net.log_loss,
            "steps": steps,
            "apart_over_way": apart.median().item(),
        }
    return rows


def main() -> None:
    torch.set_flush_denormal(True)
    rows: dict[str, dict] = {}
    with TemporaryDirectory() as folder:
        context = Context(load_pool("cifar10"), torch.device("cpu"), 0, Checkpoints(Path(folder)), one_by_one)
        images = context.images(N)
        weights, _ = train_reference(context, images, WIDTH)
    left = leaving(weights, images)
    for start in STARTS:
        exact = None
        for kind in KINDS:
            found, x_hat = row(weights, start, kind, images)
            exact = x_hat if exact is None else exact
            found["distance_to_float64"] = ((x_hat - exact).norm() / exact.norm()).item()
            rows[f"{start}, {kind}"] = found
    write(
        {"n": N, "steps": STEPS, "bfloat16_product_differs": product_differs(), "rows": rows, "from_the_images": left},
        __file__,
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["kept"]:
        torch.set_flush_denormal(True)
        before = json.loads(Path(__file__).with_suffix(".json").read_text())
        write({**before, "kept": kept()}, __file__)
    else:
        main()
