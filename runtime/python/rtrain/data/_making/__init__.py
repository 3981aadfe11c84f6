"""Carries functions out on pieces: decides how many threads or processes do it, and runs them."""
