"""Where the files of runs and checkpoints lie: reading a run's directory anywhere, writing one here, and file systems of the user's own."""
