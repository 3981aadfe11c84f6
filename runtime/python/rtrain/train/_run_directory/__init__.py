"""Reads a run's directory wherever it is, writes one on this machine, and supports file systems that the user's script
gives.
"""
