"""Implements `rtrain.remote`: a function call or an object on a node of the cluster is a run with one worker. Values are
sent directly between this process and that worker. See _call_runs.py for the flow.
"""
