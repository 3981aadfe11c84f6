"""The parts of a worker of `fit()` beside its session: shares of datasets, trackers, logs, the end of its process.

`_setup` adds them to the session. Local mode uses the same modules in its own process.
"""
