"""Appendix J: labels of candidates, and the networks that are attacked."""

from __future__ import annotations

from companion.chapters.architectures.experiment import SIZES as DENSE_SIZES
from companion.chapters.architectures.experiment import candidate_labels


def test_labels_of_candidates_are_in_equal_shares():
    assert candidate_labels(1, 4).tolist() == [-1, -1, 1, 1]
    assert candidate_labels(5, 100).bincount().tolist() == [20] * 5


def test_depths_and_classes_are_those_of_the_page():
    for profile in ("laptop", "paper"):
        assert DENSE_SIZES[profile].depths == (3, 4, 5, 6)
        assert max(DENSE_SIZES[profile].classes) == 10
