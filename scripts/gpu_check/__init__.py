"""The parts of `scripts/gpu-check`: rows in groups, each group a process with a deadline, and one table of all rows."""
