"""The files of runs and checkpoints: reads a run's directory anywhere, writes one on this machine, and supports the
user's own file systems.
"""
