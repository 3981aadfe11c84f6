"""Values between Arrow, NumPy, pandas and Python: columns, their types, and what a function's batch has changed."""
