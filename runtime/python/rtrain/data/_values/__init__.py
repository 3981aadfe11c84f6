"""Converts values between Arrow, NumPy, pandas and Python, and detects which columns a user's function changed."""
