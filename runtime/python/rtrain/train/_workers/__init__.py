"""What a worker of `fit()` has in addition to its session: shares of datasets, trackers, logs, the end of its process.

`_setup` adds them to the session. Local mode uses the same modules in its own process.
"""
