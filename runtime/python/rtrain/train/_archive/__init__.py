"""Packs the files that a driver uploads for its workers: its script's folder as an archive, and driver.pkl."""
