"""What a worker of `fit()` has beyond its session: shares of datasets, trackers, logs, the end of its process.

`_setup` gives them to the session; local mode uses the same modules in its own process."""
