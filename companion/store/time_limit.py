"""An end to a computation that takes too long."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class OutOfTime(Exception):
    """The time is up that a computation was given."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """OutOfTime inside after so many seconds, wherever the computation is; in the main thread of a
    POSIX system.
    """

    def stop(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
