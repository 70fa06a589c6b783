"""Another rounding for a process that has this folder on its PYTHONPATH: every pixel is multiplied
by 1 + 1e-7 ε.

ε is standard normal, drawn by `$RECON_NUDGE`, and the same whenever a pixel is asked for.
benchmarks/rounding.py uses it: the package itself knows nothing of it, and kernels of notebooks are
nudged as well.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from typing import Any

RELATIVE = 1e-7  # one unit in the last place of float32 is 0.6e-7 to 1.2e-7


def nudge(module: Any, seed: int) -> None:
    """Let `ImagePool.pixels` of the module return nudged images."""
    import numpy as np
    import torch

    plain = module.ImagePool.pixels

    def pixels(self: Any, rows: Any) -> Any:
        x = plain(self, rows).double()
        if not len(rows):
            return x.float()
        noise = np.stack(
            [np.random.default_rng([seed, int(row)]).standard_normal(x.shape[1:]) for row in rows]
        )
        return (x * (1 + RELATIVE * torch.from_numpy(noise))).clamp(0, 1).float()

    module.ImagePool.pixels = pixels


class _Nudged(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "recon.images.pool":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def executed(module: Any) -> None:
            execute(module)
            nudge(module, int(os.environ["RECON_NUDGE"]))

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


if os.environ.get("RECON_NUDGE"):
    sys.meta_path.insert(0, _Nudged())
