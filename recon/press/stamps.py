"""How a page was made: written into the notebook's metadata (`recon`) and, for the reader, at the foot of the page."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING

import nbformat
from nbformat import NotebookNode

if TYPE_CHECKING:
    from recon.images.pools import ImagePool


def notebook_sha256(nb: NotebookNode) -> str:
    """Over type and source of every cell of a *source* notebook: outputs and metadata do not make a page stale."""
    digest = hashlib.sha256()
    for cell in nb.cells:
        digest.update(f"{cell.cell_type}\0{cell.source}\0".encode())
    return digest.hexdigest()


def source_hash(nb: NotebookNode, profile: str) -> str:
    """Hash of the code and settings behind a page: what its cells import, and its experiments at this profile."""
    from recon.chapters import code_of, registry
    from recon.store import keys as sources

    cells = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "code")
    parts = [sources.source_hash(sources.imported(cells))]
    for name in sorted(set(re.findall(r"recon\.run\(\s*[\"']([\w-]+)", cells))):
        experiment = registry()[name]
        parts += [code_of(experiment), json.dumps(asdict(experiment.configs[profile]), sort_keys=True)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def commit(root: Path) -> str:
    """Short hash of HEAD, "-dirty" with uncommitted changes in recon/ or notebooks/; "unknown" without a commit."""
    head = _git(root, "rev-parse", "--short", "HEAD")
    if not head:
        return "unknown"
    return head + ("-dirty" if _git(root, "status", "--porcelain", "--", "recon", "notebooks") else "")


def describe_device(device: str) -> str:
    """What `device` means here: "cpu (2 cores)" or the name of the GPU."""
    import torch

    if device != "cpu" and torch.cuda.is_available():
        return torch.cuda.get_device_name(0)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"cpu ({cores} cores)"


def make_stamp(root: Path, source: NotebookNode, profile: str, pool: ImagePool, seed: int, device: str) -> dict:
    """The stamp of one page, made before it is executed; `seconds` is filled in afterwards."""
    return {
        "commit": commit(root),
        "profile": profile,
        "data": {"name": pool.name, "sha256": pool.sha256},
        "notice": _without_home(pool.notice, root),
        "seed": seed,
        "device": describe_device(device),
        "versions": {"python": python_version(), "torch": _version("torch"), "recon": _version("recon")},
        "seconds": 0.0,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "notebook_sha256": notebook_sha256(source),
        "source_hash": source_hash(source, profile),
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


def put_stamp(nb: NotebookNode, stamp: dict) -> None:
    """Stamp an executed notebook in place: metadata, a table at the foot, the notice (if any) under the title."""
    nb.metadata["recon"] = nbformat.from_dict(stamp)
    if stamp["notice"]:
        nb.cells.insert(1, _markdown("recon-notice", f"```{{warning}}\n{stamp['notice']}\n```"))
    nb.cells.append(_markdown("recon-stamp", _table(stamp)))


def _table(stamp: dict) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in stamp["versions"].items())
    rows = {
        "Commit": f"`{stamp['commit']}`",
        "Profile": f"`{stamp['profile']}`",
        "Data": f"`{stamp['data']['name']}`, sha256 `{stamp['data']['sha256'][:16]}`",
        "Seed": stamp["seed"],
        "Device": stamp["device"],
        "Versions": versions,
        "Wall time": f"{stamp['seconds']:.0f} s, stored results reused",
        "Date": stamp["date"],
    }
    lines = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return (
        f"```{{admonition}} How this page was made\n:class: note dropdown\n\n| What | Value |\n|---|---|\n{lines}\n```"
    )


def _markdown(cell_id: str, text: str) -> NotebookNode:
    return nbformat.v4.new_markdown_cell(text, id=cell_id)


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _without_home(text: str, root: Path) -> str:
    return text.replace(str(root.resolve()), ".").replace(os.path.expanduser("~"), "~")
