"""Actors: the slot of the process that made one, that of a process which was sent a handle, and the worker's server."""
