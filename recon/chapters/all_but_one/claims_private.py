"""Chapter 20's sentences on models with noise: output perturbation against the budget, DP-SGD against its bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import geometric_mean, median

import numpy as np

from recon.analysis.privacy_bounds import interval
from recon.chapters.all_but_one.metrics import Budget, Noise, OutputMetrics, SgdMetrics
from recon.chapters.all_but_one.sizes import OutputSizes, SgdSizes
from recon.store.results import Claim

LEAST = 1e-12  # under a logarithm
HALF = 0.5
NEAR, ROUGHLY = 30.0, 300.0  # factors around ρ = d within which a transition counts as there, or as roughly there
DRIFT = 5.0  # factor between transitions at different sizes, up to which they lie at one ρ/d
WITHIN = 2.0  # factor between predicted and found error
USUAL = 8.0  # an ε that is called private in practice
MATCH = 0.02  # of closed form and Monte Carlo


def output_claims(metrics: OutputMetrics, _: OutputSizes) -> list[Claim]:
    """Collapse, transition, what beats the null, what is known, what a prior adds."""
    return [
        collapse_claim(metrics),
        transition_claim(metrics),
        beats_claim(metrics),
        predicted_claim(metrics),
        prior_claim(metrics),
    ]


def dims(metrics: OutputMetrics) -> list[int]:
    """Sizes of image, in order."""
    return [row.dim for row in metrics.nulls]


def middle(row: Budget) -> float:
    """Median error over the targets."""
    return median(row.error)


def curves(metrics: OutputMetrics) -> str:
    """Median errors by d, in the order of ρ/d."""
    ratios = ", ".join(f"{row.ratio:g}" for row in metrics.of(dims(metrics)[0]))
    said = (f"d = {dim}: " + ", ".join(f"{middle(row):.2g}" for row in metrics.of(dim)) for dim in dims(metrics))
    return f"median error at ρ/d = {ratios}: " + "; ".join(said)


def apart(metrics: OutputMetrics, scale: Callable[[Budget], float]) -> float:
    """Mean distance between the highest and the lowest curve over log scale(row), where all of them are defined."""
    each = [metrics.of(dim) for dim in dims(metrics)]
    places = [np.log([scale(row) for row in rows]) for rows in each]
    low, high = max(x.min() for x in places), min(x.max() for x in places)
    grid = np.linspace(low, high, 50)
    heights = [np.interp(grid, x, [middle(row) for row in rows]) for x, rows in zip(places, each, strict=True)]
    return float((np.max(heights, 0) - np.min(heights, 0)).mean())


def collapse_claim(metrics: OutputMetrics) -> Claim:
    """Curves of all d over ρ/d are at most half as far apart as over ρ, and pass one half at one ρ/d, up to `DRIFT`.

    The second half of the rule was added after a first run: curves whose transitions drift have not collapsed."""
    joint, plain = apart(metrics, lambda row: row.ratio), apart(metrics, lambda row: row.rho)
    nearer, drift = joint <= HALF * plain, drift_of(metrics)
    return Claim(
        "informed-collapse",
        "Cairney-Leeming et al. 2026, §5, Figs. 2b and 3b",
        "The error of the reconstruction depends on ρ/d alone: curves of images of different size “collapse onto each "
        "other”.",
        "curves without numbers: Fig. 2b, points on a sphere, d = 10 to 10,000 (Table 1), and Fig. 3b, ImageNet, "
        "d = 12 to 12,288 and ρ = 1 to 10⁵ (Table 2)",
        f"{curves(metrics)}; curves are {joint:.2f} apart over ρ/d; "
        + (
            "not all pass one half" if math.isinf(drift) else f"they pass one half at ρ/d up to {drift:.1f} times apart"
        ),
        f"over ρ itself they are {plain:.2f} apart",
        "reproduced" if nearer and drift <= DRIFT else ("partly" if joint < plain else "not reproduced"),
        value=joint,
        null_value=plain,
    )


def crossing(rows: list[Budget]) -> float | None:
    """ρ/d at which the median error falls below a half, between two budgets by the logarithm; None if it never does, or
    is never above."""
    for before, after in zip(rows, rows[1:], strict=False):
        if middle(before) >= HALF > middle(after):
            part = (middle(before) - HALF) / (middle(before) - middle(after))
            return math.exp(math.log(before.ratio) + part * math.log(after.ratio / before.ratio))
    return None


def drift_of(metrics: OutputMetrics) -> float:
    """Largest over smallest ρ/d at which the median error falls below a half, over the sizes of image; ∞ if at one of
    them it never does."""
    found = [crossing(metrics.of(dim)) for dim in dims(metrics)]
    values = [value for value in found if value is not None]
    return max(values) / min(values) if len(values) == len(found) else math.inf


def power(rows: list[Budget]) -> float:
    """x of error ∝ (d/ρ)^x, between the two largest budgets."""
    before, after = rows[-2:]
    return math.log(max(middle(before), LEAST) / max(middle(after), LEAST)) / math.log(after.ratio / before.ratio)


def transition_claim(metrics: OutputMetrics) -> Claim:
    """Where the error crosses one half: near ρ = d, and at every size of image at the same ρ/d."""
    found = {dim: crossing(metrics.of(dim)) for dim in dims(metrics)}
    values = [value for value in found.values() if value is not None]
    all_there = len(values) == len(found)
    drift = max(values) / min(values) if values else math.inf

    def within(factor: float) -> bool:
        return all_there and all(1 / factor <= value <= factor for value in values)

    said = ", ".join(f"d = {dim} at {'none' if x is None else f'{x:.1f}'}" for dim, x in found.items())
    return Claim(
        "informed-transition",
        "Cairney-Leeming et al. 2026, abstract",
        "There is a sharp transition at ρ ≍ d: below it no image, above it the image.",
        "a “clear diagonal boundary ρ/d ≍ 1” for points on a sphere, and the same for ImageNet (§5, Figs. 2b and 3a); "
        "above it an error of at most the order of d/ρ (16); no error as a number in the text",
        f"the median error falls below one half at ρ/d: {said}; largest over smallest {drift:.1f}; between the two "
        "largest budgets the error falls as d/ρ to the power of "
        + ", ".join(f"{power(metrics.of(dim)):.1f} (d = {dim})" for dim in dims(metrics)),
        f"at δ = 1e-5 an ε of {USUAL:g} is ρ = {rho_of(USUAL):.1f}, so ρ/d = "
        + ", ".join(f"{rho_of(USUAL) / dim:.1g} (d = {dim})" for dim in dims(metrics)),
        "reproduced" if within(NEAR) and drift <= DRIFT else ("partly" if within(ROUGHLY) else "not reproduced"),
        value=max(values, default=math.inf),
        null_value=rho_of(USUAL) / max(dims(metrics)),
    )


def rho_of(epsilon: float, delta: float = 1e-5) -> float:
    """The ρ whose ε is this one: ρ + 2√(ρ log(1/δ)) = ε.

    >>> round(rho_of(8.0), 1)
    1.0
    """
    log = math.log(1 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def best_null(metrics: OutputMetrics, dim: int) -> float:
    """Least median error of what needs no weights."""
    (row,) = [each for each in metrics.nulls if each.dim == dim]
    return min(median(row.nearest_known), median(row.nearest_other), median(row.mean))


def beats_claim(metrics: OutputMetrics) -> Claim:
    """From which budget on the weights say more than the nearest image, and placebo."""
    first = {
        dim: next((row.ratio for row in metrics.of(dim) if middle(row) < best_null(metrics, dim)), None)
        for dim in dims(metrics)
    }
    placebo = min(median(row.placebo) for row in metrics.budgets)
    clear = [first[dim] is not None and placebo > best_null(metrics, dim) for dim in first]
    return Claim(
        "informed-null",
        "",
        "A reconstruction is nearer to the image than the nearest of all other images only at budgets far above ρ = 1.",
        "",
        "below the null from ρ/d = "
        + ", ".join(f"{'none' if x is None else f'{x:g}'} (d = {dim})" for dim, x in first.items()),
        "the nearest other image has "
        + ", ".join(f"{best_null(metrics, dim):.2f} (d = {dim})" for dim in dims(metrics))
        + f"; the same attack on weights that never saw the image, {placebo:.2f} or more",
        "finding"
        if all(clear) and all((x or 0) * dim > 1 for dim, x in first.items())
        else ("partly" if any(clear) else "not reproduced"),
        value=max((x for x in first.values() if x is not None), default=None),
        null_value=placebo,
    )


def ratios(metrics: OutputMetrics, prior: bool) -> list[float]:
    """Found over predicted error, medians, every budget."""
    return [
        max(median(row.with_prior if prior else row.error), LEAST)
        / max(median(row.prior_predicted if prior else row.predicted), LEAST)
        for row in metrics.budgets
    ]


def predicted_claim(metrics: OutputMetrics) -> Claim:
    """The adversary's own estimate, of both attacks, and of the placebo."""
    plain, prior = ratios(metrics, False), ratios(metrics, True)
    near = [1 / WITHIN <= each <= WITHIN for each in (*plain, *prior)]
    placebo = min(median(row.placebo_predicted) for row in metrics.budgets)
    return Claim(
        "informed-predicted",
        "",
        "The adversary knows how far off they are: the error that they expect is within a factor of two of the error "
        "that they make, at every budget.",
        "",
        f"found over expected error between {min(plain):.2f} and {max(plain):.2f} (direction), {min(prior):.2f} and "
        f"{max(prior):.2f} (with a prior)",
        f"of weights that never saw the image they expect {placebo:.2f} or more",
        "finding" if all(near) and placebo > HALF else ("partly" if sum(near) >= 0.8 * len(near) else "not reproduced"),
        value=max(*plain, *prior, *(1 / each for each in (*plain, *prior))),
        null_value=WITHIN,
    )


def prior_claim(metrics: OutputMetrics) -> Claim:
    """Near the transition, with the Gaussian prior and without."""
    near = [row for row in metrics.budgets if 1 <= row.ratio <= 10]
    better = [median(row.with_prior) < middle(row) for row in near]
    gain = [max(middle(row), LEAST) / max(median(row.with_prior), LEAST) for row in near]
    right = [median(row.label) for row in near]
    return Claim(
        "informed-prior",
        "",
        "Near the transition a Gaussian prior, from other images, makes the error smaller.",
        "",
        "error without over error with it, at ρ/d from 1 to 10: "
        + ", ".join(f"{each:.1f}" for each in gain)
        + f"; the label has a probability of {min(right, default=0.5):.2f} to {max(right, default=0.5):.2f} at "
        "the median",
        "1: it changes nothing; 0.5: the label is open",
        "undecided"
        if not near
        else ("finding" if all(better) else ("partly" if geometric_mean(gain) > 1 else "not reproduced")),
        value=geometric_mean(gain) if gain else None,
        null_value=1.0,
    )


def sgd_claims(metrics: SgdMetrics, sizes: SgdSizes) -> list[Claim]:
    """The bound, how tight it is and why, the advantage, who knows, and the last weights alone."""
    return [
        bound_claim(metrics, sizes),
        tight_claim(metrics),
        angles_claim(metrics),
        advantage_claim(metrics),
        sure_claim(metrics),
        final_claim(metrics),
    ]


def by_noise(metrics: SgdMetrics, said: Callable[[Noise], str]) -> str:
    """One text a σ."""
    return ", ".join(f"{said(row)} (σ = {row.noise:g})" for row in metrics.noises)


def rate(metrics: SgdMetrics, row: Noise) -> float:
    """Success."""
    return row.right / metrics.runs


def family(metrics: SgdMetrics, right: int) -> tuple[float, float]:
    """Interval at 95 % for all σ together."""
    return interval(right, metrics.runs, 1 - 0.05 / len(metrics.noises))


def rates(metrics: SgdMetrics) -> str:
    """Success with its interval, by σ."""
    return by_noise(metrics, lambda row: f"{rate(metrics, row):.3f} [{row.low:.3f}, {row.high:.3f}]")


def bound_claim(metrics: SgdMetrics, sizes: SgdSizes) -> Claim:
    """No success above it; and it is what they compute."""
    below = [row.low <= row.bound for row in metrics.noises]
    surely = [family(metrics, row.right)[0] <= row.bound for row in metrics.noises]
    same = all(abs(row.bound - row.sampled_bound) <= MATCH for row in metrics.noises)
    return Claim(
        "informed-bound",
        "Hayes et al. 2023, code",
        "No attack on DP-SGD names the right candidate more often than Φ(Φ⁻¹(κ) + √T/σ).",
        "their Monte Carlo, reconstruction_upper_bound as DPSGD_fullAux/mnist_eps1.py of Guerra-Balboa et al.'s code "
        "has it, rewritten and evaluated by us: "
        + by_noise(metrics, lambda row: f"{row.sampled_bound:.3f}")
        + f", T = {sizes.steps}, κ = 1/{sizes.candidates}; no printed value was found",
        f"success {rates(metrics)}; bound in closed form {by_noise(metrics, lambda row: f'{row.bound:.3f}')}",
        f"chance {metrics.kappa:.3f}",
        "reproduced" if all(below) and same else ("partly" if all(surely) and same else "not reproduced"),
        value=max(rate(metrics, row) - row.bound for row in metrics.noises),
        null_value=0.0,
    )


def tight_claim(metrics: SgdMetrics) -> Claim:
    """Whether the bound lies within the interval of the success."""
    reached = [row.high >= row.bound for row in metrics.noises]
    return Claim(
        "informed-tight",
        "Hayes et al. 2023, abstract",
        "The prior-aware attack “empirically matches the predictions of our bound”.",
        "success at the bound",
        "success over bound " + by_noise(metrics, lambda row: f"{rate(metrics, row) / row.bound:.2f}"),
        f"chance over bound {by_noise(metrics, lambda row: f'{metrics.kappa / row.bound:.2f}')}",
        "reproduced" if all(reached) else ("partly" if any(reached) else "not reproduced"),
        value=min(rate(metrics, row) / row.bound for row in metrics.noises),
        null_value=1.0,
    )


def angles_claim(metrics: SgdMetrics) -> Claim:
    """Candidates at right angles to each other as the reason."""
    inside = [low <= row.orthogonal <= high for row in metrics.noises for low, high in [family(metrics, row.right)]]
    lower = [row.orthogonal < row.bound for row in metrics.noises]
    return Claim(
        "informed-angles",
        "",
        "What is left of the bound is geometry: the success is that of candidates whose gradients have full length and "
        "are at right angles to each other.",
        "",
        "success over that of right angles "
        + by_noise(metrics, lambda row: f"{rate(metrics, row) / row.orthogonal:.2f}")
        + f"; mean cosine of two candidates' gradients {median(row.cosine for row in metrics.noises):.2f}, mean "
        f"squared length {median(row.length for row in metrics.noises):.2f} of C²",
        f"right angles over bound {by_noise(metrics, lambda row: f'{row.orthogonal / row.bound:.2f}')}",
        "finding" if all(inside) and all(lower) else ("partly" if any(inside) else "not reproduced"),
        value=max(abs(rate(metrics, row) / row.orthogonal - 1) for row in metrics.noises),
        null_value=0.0,
    )


def advantage_claim(metrics: SgdMetrics) -> Claim:
    """Success less chance."""
    below = [row.low - metrics.kappa <= row.advantage_bound for row in metrics.noises]
    surely = [family(metrics, row.right)[0] - metrics.kappa <= row.advantage_bound for row in metrics.noises]
    return Claim(
        "informed-advantage",
        "Guerra-Balboa et al. 2026, code, theo_51_discrete",
        "The reconstruction advantage, success less chance, stays below its own bound.",
        "their formula (Bounds/bounds.py), evaluated by us: "
        + by_noise(metrics, lambda row: f"{row.advantage_bound:.3f}"),
        "advantage " + by_noise(metrics, lambda row: f"{row.advantage:.3f}"),
        "0: naming a candidate at random",
        "reproduced" if all(below) else ("partly" if all(surely) else "not reproduced"),
        value=max(row.advantage - row.advantage_bound for row in metrics.noises),
        null_value=0.0,
    )


def sure_claim(metrics: SgdMetrics) -> Claim:
    """Expected success within the interval of the true one."""
    inside = [low <= row.expected <= high for row in metrics.noises for low, high in [family(metrics, row.right)]]
    sure, right = (sum(getattr(row, name) for row in metrics.noises) for name in ("sure", "sure_right"))
    return Claim(
        "informed-sure",
        "",
        "The adversary knows how sure to be: their mean probability of being right is the share of runs in which they "
        "are.",
        "",
        "expected against found "
        + by_noise(metrics, lambda row: f"{row.expected:.3f} and {rate(metrics, row):.3f}")
        + f"; of {sure} runs in which they are sure (0.95), they are right in {right}",
        f"chance {metrics.kappa:.3f}",
        "finding" if all(inside) else ("partly" if sum(inside) >= len(inside) / 2 else "not reproduced"),
        value=max(abs(row.expected - rate(metrics, row)) for row in metrics.noises),
        null_value=0.0,
    )


def final_claim(metrics: SgdMetrics) -> Claim:
    """The last weights alone, where all steps say something."""
    told = [row for row in metrics.noises if row.low > 2 * metrics.kappa]
    less = [row.final_high < row.low for row in told]
    return Claim(
        "informed-last",
        "",
        "The last weights alone say much less than all steps do.",
        "",
        "success by the last weights, after practice "
        + by_noise(metrics, lambda row: f"{row.final / metrics.runs:.3f} [{row.final_low:.3f}, {row.final_high:.3f}]"),
        f"by all steps {rates(metrics)}; chance {metrics.kappa:.3f}",
        "undecided" if not told else ("finding" if all(less) else ("partly" if any(less) else "not reproduced")),
        value=max((row.final / row.right for row in told), default=None),
        null_value=1.0,
    )


__all__ = ["output_claims", "sgd_claims"]
