"""Table 1's hidden row against every run, by every reading of "average distance"."""

from __future__ import annotations

from dataclasses import dataclass

from recon.chapters.bilevel_common import PAPER_HIDDEN, STARTS
from recon.chapters.bilevel_hidden.metrics import MeanEnded, Metrics

#: where the inner training begins, as tables and sentences have it
INNER = {"uniform": "uniform", "other_seed": "another seed", "theta_star": "θ*"}
READINGS = ("sum", "mean per parameter", "relative to ‖θ*‖²")


@dataclass(frozen=True)
class Reading:
    """The three starts of one inner start at one weight decay, in units of one reading; factor: between the paper's
    value and ours, either way, at the start where they differ most · converged: whether all three runs had."""

    weight_decay: float
    inner: str
    reading: str
    random: float
    truth: float
    partition: float
    converged: bool

    @property
    def factor(self) -> float:
        """≥ 1; infinite where ours is zero."""
        ours = {name: getattr(self, name) for name in STARTS}
        ratios = [ours[name] / PAPER_HIDDEN[name] for name in STARTS]
        return max(max(ratio, 1 / ratio) if ratio > 0 else float("inf") for ratio in ratios)


def readings(metrics: Metrics) -> list[Reading]:
    """All of them, after the inner solver has settled."""
    found = []
    for decay, at_decay in sorted(metrics.weight_decays.items()):
        for inner, by_start in at_decay.inner_starts().items():
            converged = all(reached.converged == 1 for reached in by_start.starts().values())
            for reading in READINGS:
                values = {
                    start: in_units(reached, reading, metrics.n_params, at_decay.null.zero_sum)
                    for start, reached in by_start.starts().items()
                }
                found.append(Reading(decay, inner, reading, **values, converged=converged))
    return found


def in_units(reached: MeanEnded, reading: str, n_params: int, zero_sum: float) -> float:
    """A settled distance in units of one of `READINGS`."""
    return reached.settled_sum / {"sum": 1.0, "mean per parameter": n_params, "relative to ‖θ*‖²": zero_sum}[reading]
