"""What `scripts/gpu-check` is made of: rows in groups, each group a process with a deadline, one table of all."""
