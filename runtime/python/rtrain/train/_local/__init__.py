"""Local mode: `num_workers=0` trains in this process, and under torchrun in all of its ranks, without a cluster.

`_fit` is the entry. `_session` implements the calls of the loop. `_run_directory._writer` writes the run's
directory.
"""
