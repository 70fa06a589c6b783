"""How a page was made, in the notebook's metadata (`recon`), which book/_ext shows at the foot of the page."""

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from companion.chapters import PROFILES, ROOT, code_of, experiment, page_code_of
from companion.store.results import commit
from recon.errors import ReconError
from recon.images.pool import ImagePool
from recon.store.keys import code_hash, imported
from recon.store.machine import check_seed, device_name, resolve_device, versions


@dataclass(frozen=True)
class Edition:
    """What an edition is made with: the chapters' parameters; data_root: as `recon.images.registry.load_pool` · jobs:
    chapters at a time, None for as many as there are cores · timeout: seconds that a cell may take."""

    profile: str = "laptop"
    data: str = "auto"
    device: str = "auto"
    seed: int = 0
    data_root: str | Path | None = None
    jobs: int | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise ReconError(f"unknown profile '{self.profile}': choose one of {', '.join(PROFILES)}")
        if self.jobs is not None and self.jobs < 1:
            raise ReconError(f"the number of jobs must be at least 1, not {self.jobs}")
        check_seed(self.seed)
        resolve_device(self.device)


def experiments_in(nb: NotebookNode) -> list[str]:
    """Names of the experiments that a notebook's code runs."""
    return sorted(set(re.findall(r"recon\.run\(\s*[\"']([\w-]+)", _code(nb))))


def shown_in(nb: NotebookNode) -> list[str]:
    """Names of the experiments whose kept runs its code shows; at profile `paper` they are run too."""
    return sorted(set(re.findall(r"recon\.shown\(\s*[\"']([\w-]+)", _code(nb))))


def _code(nb: NotebookNode) -> str:
    return "\n".join(cell.source for cell in nb.cells if cell.cell_type == "code")


def notebook_sha256(nb: NotebookNode) -> str:
    """Over type and source of every cell of a *source* notebook: outputs and metadata do not make a page stale."""
    digest = hashlib.sha256()
    for cell in nb.cells:
        digest.update(f"{cell.cell_type}\0{cell.source}\0".encode())
    return digest.hexdigest()


def source_hash(nb: NotebookNode, profile: str) -> str:
    """Hash of the code and sizes behind a page: what its cells import and all that this reaches; of every experiment
    that it runs, what computes, what makes claims and figures, and the sizes at this profile; and of every element to
    play with that it imports, the style sheet and the script that lie in the page."""
    parts = [code_hash(imported(_code(nb))), *_static(nb)]
    for chosen in map(experiment, [*experiments_in(nb), *shown_in(nb)]):
        parts += [code_of(chosen), page_code_of(chosen), json.dumps(asdict(chosen.sizes[profile]), sort_keys=True)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _static(nb: NotebookNode) -> list[str]:
    """Style sheets and scripts of the page's elements, each of which has its module's name."""
    modules = {module.rpartition(".")[2] for module, _ in imported(_code(nb))}
    files = [file for name in sorted(modules) for file in sorted((ROOT / "book" / "_static").glob(f"{name}.*"))]
    files = [file for file in files if file.suffix in (".css", ".js")]
    shared = sorted((ROOT / "book" / "_static").glob("elements.css")) if files else []
    return [file.read_text(encoding="utf-8") for file in [*files, *shared]]


def make_stamp(root: Path, source: NotebookNode, settings: Edition, pool: ImagePool) -> dict:
    """The stamp of one page, made before it is executed; `seconds` is filled in afterwards."""
    return {
        "commit": commit(root),
        "profile": settings.profile,
        "data": {"name": pool.name, "sha256": pool.sha256},
        "notice": pool.notice.replace(str(root.resolve()), ".").replace(os.path.expanduser("~"), "~"),
        "seed": settings.seed,
        "device": device_name(resolve_device(settings.device)),
        "versions": versions(),
        "seconds": 0.0,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "notebook_sha256": notebook_sha256(source),
        "source_hash": source_hash(source, settings.profile),
    }


def stamp_of(nb: NotebookNode) -> NotebookNode | None:
    """The stamp of an executed notebook, if it has one and it is complete as far as publishing looks at it."""
    stamp = nb.metadata.get("recon")
    if not isinstance(stamp, dict) or not isinstance(stamp.get("data"), dict):
        return None
    texts = [stamp.get(name) for name in ("commit", "profile", "notebook_sha256", "source_hash")]
    texts += [stamp["data"].get(name) for name in ("name", "sha256")]
    complete = all(isinstance(t, str) for t in texts) and isinstance(stamp.get("seed"), int)
    return nbformat.from_dict(stamp) if complete else None


def made_alike(page: NotebookNode, stamp: dict) -> bool:
    """Whether a page with this stamp would show what `page` shows: all is the same but when, how fast, and a commit
    that was clean."""
    old = stamp_of(page)
    if old is None or old.commit == "unknown" or old.commit.endswith("-dirty"):
        return False
    return all(old.get(name) == value for name, value in stamp.items() if name not in ("commit", "seconds", "date"))


def put_stamp(nb: NotebookNode, stamp: dict) -> None:
    """Stamp an executed notebook in place: its metadata, and the notice (if any) under its title."""
    nb.metadata["recon"] = nbformat.from_dict(stamp)
    if stamp.get("notice"):
        warning = f"```{{warning}}\n{stamp['notice']}\n```"
        nb.cells.insert(1, nbformat.v4.new_markdown_cell(warning, id="recon-notice"))
