"""Images per CPU-second: `python benchmarks/separation.py` prints and writes
benchmarks/separation.json.

One network (3072-1000-1000-1, n = 100, CIFAR-10, seed 0), one process, one thread, one run after
the other: separation with one and with four restarts, scikit-learn's FastICA, DecoReco of chapter 9
with one restart, and 600 steps of the reference recipe from its tuned scale. Each with its excess
over the best null at NCC 0.7 and its CPU seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from timing import one_by_one, write
from torch import Tensor

from companion.chapters.base import Context
from companion.chapters.common import match_table, nulls_of, train_released
from companion.chapters.separation.experiment import fast_ica
from companion.store.checkpoints import Checkpoints
from recon.attacks.haim_recipe import TUNED_SCALE, recipe_attack
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.attacks.recover import RecoverSettings as DecoReco
from recon.attacks.recover import recover
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.images.registry import load_pool
from recon.optim.spectrum import signal_span
from recon.released import Weights

N, WIDTH, STEPS = 100, 1000, 600
STEP_SIZES = (0.5, 0.05, 0.005, 0.0005)  # of the published recipe, tried on weights of another size


def attacks(
    context: Context, released: Weights, shape: tuple[int, ...]
) -> dict[str, Callable[[], Tensor]]:
    """Name -> an attack that returns its candidates (m, d)."""
    w1 = released.params["w1"]

    def ica() -> Tensor:
        sources = fast_ica(signal_span(w1), shape, context.seed)
        return torch.cat([sources, -sources])

    def reference() -> Tensor:
        """With the step size of lowest energy after a trial of 50 steps."""
        generator, m = context.stream("kkt.attack"), 2 * N
        unit, noise = (
            torch.rand(1, m, generator=generator),
            torch.randn(1, m, w1.shape[1], generator=generator),
        )

        def run(step_x: float, steps: int) -> Reconstruction:
            attack = recipe_attack(released, unit, steps, step_x)
            return reconstruct(attack, TUNED_SCALE * noise, steps)

        return run(min(STEP_SIZES, key=lambda size: run(size, 50).energy.item()), STEPS).x_hat[0]

    return {
        "separation": lambda: separate(FirstLayer(w1), shape, SeparationSettings()).x_hat,
        "separation, 4 restarts": lambda: (
            separate(FirstLayer(w1), shape, SeparationSettings(restarts=4)).x_hat
        ),
        "FastICA": ica,
        "DecoReco, 1 restart": lambda: (
            recover(released, DecoReco(m=2 * N, restarts=1), context.stream("kkt.attack")).x_hat
        ),
        "reference recipe, 600 steps": reference,
    }


def main() -> None:
    torch.set_flush_denormal(True)
    torch.set_num_threads(1)  # threads that wait would count as CPU seconds
    with TemporaryDirectory() as folder:
        context = Context(
            load_pool("cifar10"), torch.device("cpu"), 0, Checkpoints(Path(folder)), one_by_one
        )
        images = context.images(N)
        released = train_released(context, images, WIDTH, STEPS)
        rows = {}
        for name, attack in attacks(context, released, images.shape).items():
            start = time.process_time()
            x_hat = attack()
            cpu = time.process_time() - start
            nulls = nulls_of(context, images, released.network, released.theta_star, len(x_hat))
            table = match_table(x_hat, images, nulls)
            rows[name] = {
                "cpu_seconds": round(cpu, 2),
                "found": table.matches.ncc_07,
                "best_null": table.best_null.ncc_07,
                "excess_per_cpu_second": round(max(table.excess.ncc_07, 0) / cpu, 4),
            }
    ours = rows["separation"]["excess_per_cpu_second"]
    for row in rows.values():
        rate = row["excess_per_cpu_second"]
        row["separation_is_faster_by"] = round(ours / rate, 1) if rate else None
    write({"n": N, "width": WIDTH, "attacks": rows}, __file__)


if __name__ == "__main__":
    main()
