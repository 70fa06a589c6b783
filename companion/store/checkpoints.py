"""Checkpoints of unfinished runs as files: what `recon.optim.loop` saves to and resumes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from recon.optim.tree import State
from recon.store.tensors import find_tensors, save_tensors


@dataclass(frozen=True)
class FileCheckpoint:
    """A tree of tensors in one safetensors file, written atomically; a damaged one costs time,
    nothing else.
    """

    path: Path

    def load(self) -> State | None:
        """What was saved last; None if there is no file, or none that can be read."""
        tensors = find_tensors(self.path)
        return None if tensors is None else unflatten_tree(tensors)

    def save(self, tree: State) -> None:
        """Replace what was saved before; ReconError where that is impossible."""
        save_tensors(flatten_tree(tree), self.path)


@dataclass(frozen=True)
class Checkpoints:
    """A folder of checkpoints, one for each named part of a run."""

    folder: Path

    def at(self, name: str) -> FileCheckpoint:
        """The checkpoint `name`."""
        return FileCheckpoint(self.folder / f"{name}.safetensors")

    def inside(self, name: str) -> Checkpoints:
        """Those of a part that has parts itself."""
        return Checkpoints(self.folder / name)


def flatten_tree(tree: State, prefix: str = "") -> dict[str, Tensor]:
    """One dict of tensors, their places joined by "/"; a subtree without tensors is lost.

    >>> import torch
    >>> sorted(flatten_tree({"a": torch.ones(1), "b": {"c": torch.ones(2)}}))
    ['a', 'b/c']
    """
    flat: dict[str, Tensor] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat |= flatten_tree(value, f"{prefix}{name}/")
        else:
            flat[prefix + name] = value
    return flat


def unflatten_tree(flat: dict[str, Tensor]) -> State:
    """Inverse of `flatten_tree`."""
    tree: State = {}
    for place, tensor in flat.items():
        *folders, name = place.split("/")
        branch = tree
        for folder in folders:
            branch = branch.setdefault(folder, {})
        branch[name] = tensor
    return tree
