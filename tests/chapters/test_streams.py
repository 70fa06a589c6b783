"""Named random streams: fixed numbers, no two of one prefix alike."""

from __future__ import annotations

import hashlib
import json
from itertools import combinations

from companion.chapters.base import STREAMS, STRIDES, stream
from recon.optim.rng import named

REPEATS = 9  # of most streams
MOST = {"kkt.weights": 1000}  # numbered by the images of the network


def numbers(name: str) -> set[int]:
    repeats = MOST.get(name, REPEATS) if name in STRIDES else 1
    return {STREAMS[name] + STRIDES.get(name, 0) * i for i in range(repeats)}


def test_streams_of_one_prefix_never_meet():
    for one, other in combinations(STREAMS, 2):
        if one.split(".")[0] == other.split(".")[0]:
            assert not numbers(one) & numbers(other), (
                one,
                other,
            )


def test_published_numbers_stay():
    """Results in the book were drawn with these: the whole table, and one of the draws by name."""
    table = json.dumps([STREAMS, STRIDES], sort_keys=True).encode()
    assert hashlib.sha256(table).hexdigest()[:16] == "10318e9814b437db"
    assert stream(5, "kkt.weights", 2).initial_seed() == 5 + 1000 * 21
    assert named(3, "audit.pilot", 2).initial_seed() == 16199552961343991
