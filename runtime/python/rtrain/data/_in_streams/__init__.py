"""Nodes whose rows are made stream by stream: a mix of sources, and packed sequences."""
