"""Values and the rules of their text: metrics, names, errors, shares of a dataset. The folder imports nothing else of `rtrain.train`."""
