"""Local mode: `num_workers=0` trains in this process, and under torchrun in all of its ranks, without a cluster.

`_fit` is the way in; `_session` stands behind the calls of the loop. The run's directory is written by `_run_directory._writer`."""
