"""Values and their text forms: metrics, names, errors, shares of a dataset. The folder imports no other part of
`rtrain.train`.
"""
