"""What becomes of a report's files."""
