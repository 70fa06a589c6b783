"""What is timed, against what, side by side in one run."""
