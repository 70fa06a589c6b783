"""The one exception that a user is meant to see: a sentence, and exit code 2."""


class ReconError(ValueError):
    """Bad usage or bad input.  The message is one clear sentence that says what is wrong and, where there is one, the
    mend.  The command line prints it on stderr without a traceback and exits with code 2; library callers may catch it
    as a `ValueError`."""
