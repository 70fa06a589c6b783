"""Three sentences of the appendices."""

from __future__ import annotations

import numpy as np

from recon.chapters.leakage_appendix.metrics import Metrics, Trained
from recon.chapters.leakage_appendix.sizes import Sizes
from recon.store.results import Claim, verdict

SAME = 1e-6  # relative, of two errors; absolute below which both are rounding
MUCH = 2.0  # times as long


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """A, B, F."""
    return [no_bias(metrics), hard_constraint(metrics, sizes), smaller_gradients(metrics)]


def no_bias(metrics: Metrics) -> Claim:
    """Eq. (5) gives what (4) gives."""
    off = {
        name: max(abs(a - b) / max(a, SAME) for a, b in zip(row.with_bias, row.without, strict=True))
        for name, row in metrics.without_bias.items()
    }
    same = [each <= SAME for each in off.values()]
    return Claim(
        "leakage-no-bias",
        "C&C Lemma 3.1 (5)",
        "Without a bias the input of the fully connected layer is determined as well.",
        "proved, for ∂ℓ/∂z known",
        "R-GAP's errors with (5), the gradient of the bias withheld, differ from those with (4) by at most "
        + ", ".join(f"{value:.0e} on {name}" for name, value in off.items())
        + "; ∂ℓ/∂z is one root of the softmax's own equation",
        "with the bias: MSE "
        + ", ".join(f"{np.mean(row.with_bias):.2g} on {name}" for name, row in metrics.without_bias.items()),
        verdict(all(same)) if all(same) or not any(same) else "partly",
        value=max(off.values()),
        null_value=SAME,
    )


def hard_constraint(metrics: Metrics, sizes: Sizes) -> Claim:
    """Appendix B."""
    found = metrics.constrained
    soft, trust, projected = found.soft, found.trust_region, found.projected
    slower = trust.seconds > MUCH * soft.seconds
    worse = trust.mse > soft.mse
    return Claim(
        "leakage-hard-constraint",
        "C&C Appendix B",
        "With U x = V as a hard constraint, a trust region takes much longer to the same result than a soft one.",
        "much longer",
        f"truck, {sizes.constrained}: trust region {trust.steps} steps, {trust.pace:.2g} s each, MSE {trust.mse:.4f}; "
        f"soft {soft.steps} steps, {soft.pace:.2g} s each, MSE {soft.mse:.4f}; hard by projected Adam "
        f"{projected.steps} steps, {projected.pace:.2g} s each, MSE {projected.mse:.4f}, off the constraint by "
        f"{projected.violation:.0e} against {soft.violation:.2g} for the soft one",
        f"the start: MSE {found.start_mse:.4f}",
        verdict(slower and worse) if slower == worse else "partly",
        value=trust.mse,
        null_value=soft.mse,
    )


def smaller_gradients(metrics: Metrics) -> Claim:
    """Appendix F."""
    smaller = {name: share_smaller(row) for name, row in metrics.trained.items()}
    most = [share > 0.9 for share in smaller.values()]
    return Claim(
        "leakage-smaller-gradients",
        "C&C Appendix F",
        "A pre-trained network gives smaller gradients on an unseen image than an untrained one.",
        "likely",
        "; ".join(
            f"{name}: smaller on {smaller[name]:.0%} of {len(row.before)} images, in the middle "
            f"{np.median(np.array(row.after) / np.array(row.before)):.2g} times as large; loss {row.train[-1]:.2g}, on "
            f"{row.n_test} test images {row.test[-1]:.2g}"
            for name, row in metrics.trained.items()
        ),
        "as large: 50 %",
        verdict(all(most)) if all(most) or all(share < 0.5 for share in smaller.values()) else "partly",
        value=float(np.mean(list(smaller.values()))),
        null_value=0.5,
    )


def share_smaller(row: Trained) -> float:
    """Of images."""
    return float(np.mean([b > a for b, a in zip(row.before, row.after, strict=True)]))
