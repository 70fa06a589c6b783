"""A claim is its words, which stand in book/claims.yml, and a rule, which a story holds."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from companion.store.results import Claim
from recon.errors import ReconError

ROOT = Path(__file__).resolve().parents[2]
PAPERS = {
    "runkel2024": "Runkel et al.",
    "chen2022": "Chen & Campbell",
    "others": "other papers",
    "ours": "ours",
}


def claims_page(root: Path = ROOT) -> dict[str, Any]:
    """book/claims.yml: claims by paper, and what was not attempted; ReconError if it cannot be
    read.
    """
    try:
        return yaml.load((root / "book" / "claims.yml").read_text("utf-8"), yaml.CSafeLoader)
    except (OSError, yaml.YAMLError) as error:
        raise ReconError(f"book/claims.yml cannot be read: {error}") from error


def claim(name: str, *, ours: str, verdict: str, **measured: Any) -> Claim:
    """What a run says of the claim that book/claims.yml has under this name.

    Args:
        measured: further fields of `Claim`.
    """
    if name not in texts():
        raise ReconError(f"book/claims.yml has no claim '{name}'")
    return Claim(name, **texts()[name] | {"ours": ours, "verdict": verdict, **measured})


@cache
def texts() -> dict[str, dict[str, str]]:
    """Claim -> its words: `section`, `paper` and `sentence`."""
    page = claims_page()
    return {name: text for paper in PAPERS for name, text in page[paper].items()}
