"""Files by their formats."""
