"""How a page was made, in the notebook's metadata (`recon`), which book/_ext shows at the foot of
the page.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from companion.chapters import PROFILES
from companion.store.results import commit
from recon.errors import ReconError
from recon.images.pool import ImagePool
from recon.store.machine import check_seed, device_name, resolve_device, versions


@dataclass(frozen=True)
class Edition:
    """What an edition is made with: the chapters' parameters;

    Attributes:
        data_root: as `recon.images.registry.load_pool`.
        jobs: chapters at a time, None for as many as there are cores.
    """

    profile: str = "laptop"
    data: str = "auto"
    device: str = "auto"
    seed: int = 0
    data_root: str | Path | None = None
    jobs: int | None = None

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise ReconError(
                f"unknown profile '{self.profile}': choose one of {', '.join(PROFILES)}"
            )
        if self.jobs is not None and self.jobs < 1:
            raise ReconError(f"the number of jobs must be at least 1, not {self.jobs}")
        check_seed(self.seed)
        resolve_device(self.device)


def experiments_in(nb: NotebookNode) -> list[str]:
    """Names of the experiments that a notebook's code runs."""
    code = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "code")
    return sorted(set(re.findall(r"recon\.run\(\s*[\"']([\w-]+)", code)))


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
        "notice": pool.notice.replace(str(root.resolve()), ".").replace(
            os.path.expanduser("~"), "~"
        ),
        "seed": settings.seed,
        "device": device_name(resolve_device(settings.device)),
        "versions": versions(),
        "seconds": 0.0,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "notebook_sha256": notebook_sha256(source),
    }


def stamp_of(nb: NotebookNode) -> NotebookNode | None:
    """The stamp of an executed notebook, if it has one."""
    stamp = nb.metadata.get("recon")
    return nbformat.from_dict(stamp) if isinstance(stamp, dict) else None


def put_stamp(nb: NotebookNode, stamp: dict) -> None:
    """Stamp an executed notebook in place: its metadata, and the notice (if any) under its
    title.
    """
    nb.metadata["recon"] = nbformat.from_dict(stamp)
    if stamp.get("notice"):
        warning = f"```{{warning}}\n{stamp['notice']}\n```"
        nb.cells.insert(1, nbformat.v4.new_markdown_cell(warning, id="recon-notice"))
