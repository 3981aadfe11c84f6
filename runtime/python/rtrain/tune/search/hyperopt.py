"""A name that scripts import; rtrain does not have this searcher."""

from rtrain.train._refused import refused
from rtrain.tune.search._wrapping import WRAP_IT

__all__ = ["HyperOptSearch"]

HyperOptSearch = refused("HyperOptSearch", WRAP_IT, __name__)
