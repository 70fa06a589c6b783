"""Results on disk, parts of unfinished ones, sweeps of independent runs."""
