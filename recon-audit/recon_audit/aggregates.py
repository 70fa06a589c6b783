"""A report without images and names: what may be shown to those who may not see the training set.

An image has a number in the place of its name, by how sure it is that it is given away. Rows are
names, too, and go; so do words that come from files: classes, names of files, notes of the reading.
The owner audits once more with the same seed to know which images they are.
"""

from __future__ import annotations

import copy

from recon_audit.scoring import Json


def aggregates(report: Json) -> Json:
    """What report.json may say; what is made of it anew (`lines`, `tried`, `summary`) is left for
    the caller.
    """
    public = copy.deepcopy(report)
    for k, entry in enumerate(public["leaked"]):
        entry |= {"image": f"image {k + 1}", "index": None}
    public["weights"]["file"] = "weights"
    notes = len(public["images"]["notes"])
    public["images"]["notes"] = [f"notes on how files were read, left out here: {notes}"]
    if members := public["membership"]:
        members["labels"] = members["labels"].split(",")[0].split(" of ")[0]
    return public
