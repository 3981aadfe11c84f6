"""The making of pieces: which threads carry functions out, and how many of them pay."""
