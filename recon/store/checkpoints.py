"""Checkpoints of unfinished runs as files: what `recon.optim.loop` saves to and resumes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from recon.optim.tree import State, flattened, unflattened
from recon.store.tensors import find_tensors, save_tensors


@dataclass(frozen=True)
class FileCheckpoint:
    """A tree of tensors in one safetensors file, written atomically; a damaged one costs time,
    nothing else.
    """

    path: Path

    def load(self) -> State | None:
        """What was saved last; None if there is no file, or none that can be read."""
        found = find_tensors(self.path)
        return None if found is None else unflattened(found)

    def save(self, tree: State) -> None:
        """Replace what was saved before; ReconError where that is impossible."""
        save_tensors(flattened(tree), self.path)


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
