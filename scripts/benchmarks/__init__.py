"""The rows of `scripts/bench`."""
