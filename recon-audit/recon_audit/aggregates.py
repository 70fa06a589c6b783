"""A report without images and names: what may be shown to those who may not see the training set.

An image is named by a salted hash of its name, HMAC-SHA-256 cut to 16 digits. Names are easily
guessed, so the salt is as secret as they are: whoever has it finds the image again, and nobody
else. Rows are names, too, and go; so do words that come from files: classes, names of files, notes
of the reading.
"""

from __future__ import annotations

import copy
import hmac
import secrets
from pathlib import Path

from recon.errors import ReconError, one_reason
from recon_audit.scoring import Json

DIGITS = 16  # of a hash: 64 bits
SHORTEST = 16  # of a salt


def hash_name(name: str, salt: str) -> str:
    """What stands for a name.

    >>> hash_name("ward/0001.png", "0123456789abcdef")
    'e68b5330764bb3e6'
    """
    return hmac.new(salt.encode(), name.encode("utf-8", "surrogateescape"), "sha256").hexdigest()[
        :DIGITS
    ]


def salt_in(path: Path) -> str:
    """The salt that a file holds; a new one is written where there is none, for its owner alone.
    ReconError for a file that holds too little to be a salt.
    """
    if path.exists():
        with one_reason(f"the salt cannot be read from {path}"):
            return check_salt(path.read_text(encoding="utf-8").strip())
    salt = secrets.token_hex(16)
    with one_reason(f"the salt cannot be written to {path}"):
        path.touch(0o600, exist_ok=False)
        path.write_text(f"{salt}\n", encoding="utf-8")
    return salt


def check_salt(salt: str) -> str:
    """ReconError for a salt that could be guessed."""
    if not isinstance(salt, str) or len(salt) < SHORTEST:
        raise ReconError(
            f"a salt needs {SHORTEST} characters or more: with fewer, salts could be tried"
        )
    return salt


def aggregates(report: Json, salt: str) -> Json:
    """What report.json may say; what is made of it anew (`lines`, `tried`, `summary`) is left for
    the caller.
    """
    public = copy.deepcopy(report)
    for entry in public["leaked"]:
        entry |= {"image": hash_name(entry["image"], salt), "index": None}
    public["weights"]["file"] = "weights"
    notes = len(public["images"]["notes"])
    public["images"]["notes"] = [f"notes on how files were read, left out here: {notes}"]
    if members := public["membership"]:
        members["labels"] = members["labels"].split(",")[0].split(" of ")[0]
    return public
