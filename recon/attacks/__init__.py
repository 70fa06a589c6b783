"""Attacks: what each sees is what is released, and what each brings home is `Candidates`.

    from recon import attacks
    from recon.released import Gradient, Weights

    found = attacks.by_separation(Weights.of(module), (3, 32, 32))
    found = attacks.by_rgap(Gradient.received(module, loss, gradients, y), (3, 32, 32))

What the functions need is a table of the reference.  The algorithms themselves are one a file.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recon.attacks.adapters import by_adapter_nullspace
    from recon.attacks.from_gradients import (
        by_cosine_tv,
        by_dlg,
        by_gauss_newton,
        by_hybrid,
        by_rgap,
    )
    from recon.attacks.from_weights import (
        by_bilevel,
        by_decoreco,
        by_multipliers,
        by_published_recipe,
        by_separation,
    )
    from recon.attacks.registry import Candidates

__all__ = [
    "Candidates",
    "by_adapter_nullspace",
    "by_bilevel",
    "by_cosine_tv",
    "by_decoreco",
    "by_dlg",
    "by_gauss_newton",
    "by_hybrid",
    "by_multipliers",
    "by_published_recipe",
    "by_rgap",
    "by_separation",
]
# modules that have them, imported when one is asked for
MODULES = ("from_weights", "from_gradients", "adapters", "registry")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for place in MODULES:
            module = import_module(f"recon.attacks.{place}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module 'recon.attacks' has no attribute '{name}'")
