"""`rtrain.remote`: a function call, or an object, on a node of the cluster. Each is a run with one worker; values travel
directly between this process and that worker. See _hub.py for the flow."""
