"""Stopping early: the last rise of the accuracy, and as many checks more as patience lasts."""

from __future__ import annotations

import torch
from torch import nn

from recon.training.early_stopping import PATIENCE, early_stopping


def test_early_stopping_waits():
    """Validation accuracies that rise, then stay: the last rise, and `PATIENCE` checks more."""
    x = torch.arange(20.0)[:, None] - 4.5
    y = (x[:, 0] > 0).long()
    module = nn.Sequential(nn.Linear(1, 1))
    stop = early_stopping(x[:10], y[:10])
    answers = []
    for check in range(20):
        with torch.no_grad():
            module[0].weight.fill_(1.0)
            module[0].bias.fill_(min(check - 5.0, 0.0))  # right from check 5 on
        answers.append(stop(module))
        assert module.training
    assert answers.index(True) == 5 + PATIENCE
