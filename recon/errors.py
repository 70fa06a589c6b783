"""The one exception that a user is meant to see: a sentence, and exit code 2."""

from collections.abc import Iterator
from contextlib import contextmanager


class ReconError(ValueError):
    """Bad usage or bad input. The message is one clear sentence that says what is wrong and, where
    there is one, the mend. The command line prints it on stderr without a traceback and exits with
    code 2; library callers may catch it as a `ValueError`.
    """


@contextmanager
def one_reason(what: str) -> Iterator[None]:
    """Whatever a stranger's code, file or object says in the block becomes one sentence: `what`,
    and its reason.
    """
    try:
        yield
    except ReconError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:150]
        raise ReconError(f"{what}: {reason or type(error).__name__}") from error
