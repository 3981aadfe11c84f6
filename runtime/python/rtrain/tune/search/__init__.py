"""Where trials' configs come from: the variants of a space, or a searcher of one's own."""

from rtrain.tune.search._searcher import ConcurrencyLimiter, Searcher
from rtrain.tune.search.basic_variant import BasicVariantGenerator

_NAMES = {"random": BasicVariantGenerator, "variant_generator": BasicVariantGenerator}


def create_searcher(search_alg: str, **arguments: object) -> Searcher:
    """Returns a searcher by its name: "random" or "variant_generator". ValueError for another name."""
    if search_alg not in _NAMES:
        raise ValueError(
            f"there is no searcher {search_alg!r}; there are: {', '.join(_NAMES)}. Another library's searcher is wrapped by a class "
            "of your own, derived from rtrain.tune.search.Searcher"
        )
    return _NAMES[search_alg](**arguments)  # type: ignore[arg-type]


__all__ = ["BasicVariantGenerator", "ConcurrencyLimiter", "Searcher", "create_searcher"]
