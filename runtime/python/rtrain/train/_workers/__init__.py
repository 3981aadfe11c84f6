"""Modules that a worker of `fit()` uses beside its session: shares of datasets, trackers, logs, the end of its process.

`_setup` adds them to the session. Local mode uses the same modules in its own process.
"""
