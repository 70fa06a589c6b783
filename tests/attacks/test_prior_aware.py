"""The probability of each candidate is Bayes' own, and it is right as often as it says."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal

from recon.attacks.prior_aware import PriorAware
from recon.nets.mlp import MLP
from recon.training.private import PrivateDescent, clipped_each, clipped_sum, private_descent

NET = MLP((6, 4, 3))


def attacked(noise: float, runs: int, steps: int = 5, clip: float = 0.5, seed: int = 1):
    """(the attack, its target by run, every (θ, released), known, candidates)."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(12, 6, generator=generator, dtype=torch.float64)
    labels = torch.arange(12) % 3
    theta = NET.flatten(NET.init(generator, dtype=torch.float64)).repeat(runs, 1)
    known, offered = (x[:8], labels[:8]), (x[8:], labels[8:])
    settings = PrivateDescent(steps=steps, lr=0.5, clip=clip, noise=noise)
    attack, seen = PriorAware(NET, known, offered, settings, runs), []
    target = torch.arange(runs) % 4

    def watch(*both):
        seen.append(both)
        attack(*both)

    own = (offered[0][target], offered[1][target])
    private_descent(NET, theta, known, own, settings, torch.Generator().manual_seed(seed), watch)
    return attack, target, seen, known, offered


@pytest.mark.parametrize("clip", [0.5, 50.0])  # every gradient at the clip, and none
def test_evidence_is_the_likelihood(clip):
    attack, _, seen, known, offered = attacked(noise=2.0, runs=3, clip=clip)
    logs = torch.zeros(3, 4, dtype=torch.float64)
    for theta, released in seen:
        rest = released - clipped_sum(NET, theta, *known, clip)
        for k in range(4):
            mean = clipped_each(NET, theta, *offered, clip)[:, k]
            logs[:, k] += Normal(mean, 2.0 * clip).log_prob(rest).sum(-1)
    assert torch.allclose(attack.probability, logs.softmax(-1))
    assert attack.length.max() <= 1 + 1e-9 and (clip > 1) == bool(attack.length.min() < 0.1)
    assert torch.allclose(attack.likeness, attack.likeness.mT)


def test_little_noise_gives_the_candidate_away_and_much_noise_nothing():
    attack, target, *_ = attacked(noise=0.05, runs=40)
    assert torch.equal(attack.probability.argmax(1), target) and attack.probability.amax(1).min() > 0.99
    attack, target, *_ = attacked(noise=1e4, runs=40)
    assert (attack.probability - 0.25).abs().max() < 0.01


def test_the_probability_is_right_as_often_as_it_says():
    attack, target, *_ = attacked(noise=2.0, runs=1000)
    sure, guess = attack.probability.max(1)
    right = (guess == target).double()
    assert 0.35 < right.mean() < 0.95
    assert abs(sure.mean() - right.mean()) < 3 * (right.var() / 1000) ** 0.5
    high = sure > sure.median()
    assert right[high].mean() > right[~high].mean() + 0.1
