"""Results, keys, checkpoints, sweeps."""
