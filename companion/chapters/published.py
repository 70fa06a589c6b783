"""The numbers that Chen & Campbell (2022) published, to compare ours with: published.yml."""

from pathlib import Path
from typing import Any

import yaml

LABELS = {
    "rgap": "R-GAP",
    "dlg": "DLG",
    "cosine_tv": "CosineTV",
    "hybrid": "Hybrid",
}
METHODS = ("rgap", "dlg", "cosine_tv", "hybrid")  # the paper's; labels may be of more
PRE_TRAINED = " pre-trained"  # ends the name of such a row
_TABLES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_suffix(".yml").read_text(encoding="utf-8")
)
#: Table 1: rank deficiencies rd_1 … rd_d and c(M)
PUBLISHED_RANK = _TABLES["rank"]
#: Appendix E, mean over both images: network -> method -> (MSE, PSNR with peak 255)
PUBLISHED = _TABLES["errors"]
DIVERGED = 100.0  # mean squared error beyond this: the attack ran away
