"""The files that travel from a driver to workers: the folder of its script as an archive, and driver.pkl."""
