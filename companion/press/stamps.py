"""How a page was made, in the notebook's metadata (`recon`), which book/_ext shows at the foot of
the page.
"""

import hashlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from companion.store.results import commit
from recon.images.pool import ImagePool
from recon.store.machine import check_seed, device_name, resolve_device, versions


@dataclass(frozen=True)
class Edition:
    """What an edition is made with: the chapters' parameters;

    Attributes:
        data_root: as `recon.images.registry.load_pool`.
    """

    profile: str = "laptop"
    data: str = "auto"
    device: str = "auto"
    seed: int = 0
    data_root: str | Path | None = None

    def __post_init__(self) -> None:
        check_seed(self.seed)
        resolve_device(self.device)


def notebook_sha256(nb: NotebookNode) -> str:
    """Over type and source of every cell of a *source* notebook: outputs and metadata do not make a
    page stale.
    """
    digest = hashlib.sha256()
    for cell in nb.cells:
        digest.update(f"{cell.cell_type}\0{cell.source}\0".encode())
    return digest.hexdigest()


def make_stamp(root: Path, source: NotebookNode, settings: Edition, pool: ImagePool) -> dict:
    """The stamp of one page, made before it is executed; `seconds` is filled in afterwards."""
    return {
        "commit": commit(root),
        "profile": settings.profile,
        "data": {"name": pool.name, "sha256": pool.sha256},
        "notice": pool.notice.replace(os.path.expanduser("~"), "~"),
        "seed": settings.seed,
        "device": device_name(resolve_device(settings.device)),
        "versions": versions(),
        "seconds": 0.0,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "notebook_sha256": notebook_sha256(source),
    }


def put_stamp(nb: NotebookNode, stamp: dict) -> None:
    """Stamp an executed notebook in place: its metadata, and the notice (if any) under its
    title.
    """
    nb.metadata["recon"] = nbformat.from_dict(stamp)
    if stamp.get("notice"):
        warning = f"```{{warning}}\n{stamp['notice']}\n```"
        nb.cells.insert(1, nbformat.v4.new_markdown_cell(warning, id="recon-notice"))
