"""Nodes that make the rows of each stream by themselves: a mix of sources, and packed sequences."""
