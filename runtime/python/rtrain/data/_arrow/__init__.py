"""Reads files by Arrow without changed values, and computes how many bytes Arrow's arrays take."""
