"""Hugging Face libraries inside a training function. Accelerate needs nothing: it finds the ranks in the
environment."""
