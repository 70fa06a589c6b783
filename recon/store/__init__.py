"""Files written atomically, tensors on disk, the machine of a run."""
