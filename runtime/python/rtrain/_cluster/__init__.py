"""The cluster as a script sees it: resources, nodes, and what this process is in it."""
