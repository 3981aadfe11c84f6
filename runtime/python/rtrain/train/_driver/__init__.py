"""The driver of a run: submits the run, follows it, and returns its result or raises its error.

`_submission` submits a run, `_follower` follows it, `_outcome` makes its Result. `_restore` makes a trainer from a
run.
"""
