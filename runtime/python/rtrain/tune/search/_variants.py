"""From a search space to configs. Variant i of a space is a pure function of the space, the seed and i, so a sweep that is
taken up again goes on with the same ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rtrain.tune.search.sample import Domain, Function

Path = tuple[str | int, ...]


class SpaceError(ValueError):
    """The search space cannot be resolved. The text names the parameter."""


@dataclass(frozen=True)
class Variant:
    config: dict[str, Any]
    differing: dict[str, Any]  # "a/b" to the value, of what differs among the trials


class _NotYet(Exception):
    """A `sample_from` asked for a value that is not drawn yet."""


class _Open:
    """Stands where a value is still to be drawn."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain


class Spec:
    """The argument of `sample_from`: `spec.config.a.b`, `spec.config["a"]`, or `spec["a"]`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = _View(config)

    def __getitem__(self, name: str) -> Any:
        return self.config if name == "config" else self.config[name]

    def get(self, name: str, otherwise: Any = None) -> Any:
        return self.config.get(name, otherwise)


class _View(Mapping[str, Any]):
    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        if isinstance(value, _Open):
            raise _NotYet(name)
        return _View(value) if isinstance(value, dict) else value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the config has no {name!r}; there are: {', '.join(map(str, self._values))}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def is_grid(value: object) -> bool:
    return isinstance(value, Mapping) and set(value) == {"grid_search"}


def leaves(space: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Grids and domains of the space, in its order."""
    if isinstance(space, Domain):
        yield path, space
    elif is_grid(space):
        if not isinstance(space["grid_search"], list | tuple) or not space["grid_search"]:
            raise SpaceError(f"{name_of(path)}: grid_search takes a list of values, not {space['grid_search']!r}")
        yield path, space
    elif isinstance(space, Mapping):
        for key, inner in space.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(space, list | tuple):
        for place, inner in enumerate(space):
            yield from leaves(inner, (*path, place))


def name_of(path: Path) -> str:
    return "/".join(map(str, path)) or "param_space"


def grid_size(space: Any) -> int:
    """How many trials one sample of the space is."""
    size = 1
    for _, leaf in leaves(space):
        if not isinstance(leaf, Domain):
            size *= len(leaf["grid_search"])
    return size


def constants(space: Any) -> Any:
    """The space without what is drawn, for a searcher that brings its own values."""
    if isinstance(space, Mapping):
        return {key: constants(inner) for key, inner in space.items() if not (isinstance(inner, Domain) or is_grid(inner))}
    return space


def variant(space: Mapping[str, Any], seed: int, index: int, *, constant_grid_search: bool = False) -> Variant:
    """Variant `index`: the grid's points in the order of nested loops, the last one the quickest, over and over.

    Each variant draws by itself; with `constant_grid_search` all points of one round of the grid draw the same.
    """
    size = grid_size(space)
    draws_by = index // size if constant_grid_search else index
    rng = random.Random(f"{seed}-{draws_by}")
    differing: dict[str, Any] = {}
    point = _grid_point(space, index % size)
    config = _opened(space, (), point, differing)
    _draw(config, rng, differing)
    return Variant(config, differing)


def _grid_point(space: Any, number: int) -> dict[Path, Any]:
    grids = [(path, leaf["grid_search"]) for path, leaf in leaves(space) if not isinstance(leaf, Domain)]
    point: dict[Path, Any] = {}
    for path, values in reversed(grids):  # the digits of the number, the last one first
        number, place = divmod(number, len(values))
        point[path] = values[place]
    return dict(reversed(point.items()))


def _opened(space: Any, path: Path, point: Mapping[Path, Any], differing: dict[str, Any]) -> Any:
    """The space as a config of its own, the grid's values in their places, the rest open."""
    if path in point:
        differing[name_of(path)] = point[path]
        return _opened(point[path], (*path, "grid_search"), {}, differing)
    if isinstance(space, Domain):
        return _Open(space)
    if is_grid(space):
        raise SpaceError(f"{name_of(path)}: a grid_search inside of a value that is drawn; name it beside that value")
    if isinstance(space, Mapping):
        return {key: _opened(inner, (*path, key), point, differing) for key, inner in space.items()}
    if isinstance(space, list):
        return [_opened(inner, (*path, place), point, differing) for place, inner in enumerate(space)]
    if type(space) is tuple:
        return tuple(_opened(inner, (*path, place), point, differing) for place, inner in enumerate(space))
    return space


def _draw(config: dict[str, Any], rng: random.Random, differing: dict[str, Any]) -> None:
    """Fills what is open: first what draws by itself, then functions, each once what it reads is there."""
    while todo := list(_open_leaves(config, ())):
        plain = [leaf for leaf in todo if not isinstance(leaf[1].domain, Function)]
        done = False
        for path, place in plain or todo:
            try:
                value = place.domain.sample(rng, Spec(config))
            except _NotYet:
                continue
            except Exception as error:
                raise SpaceError(f"{name_of(path)} cannot be drawn: {type(error).__name__}: {error}") from error
            done = True
            differing[name_of(path)] = value
            _put(config, path, _opened(value, path, {}, differing))
        if not done:
            names = ", ".join(name_of(path) for path, _ in todo)
            raise SpaceError(f"sample_from: {names} wait for each other's value; break the circle")


def _open_leaves(value: Any, path: Path) -> Iterator[tuple[Path, _Open]]:
    if isinstance(value, _Open):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _open_leaves(inner, (*path, key))
    elif isinstance(value, list) or type(value) is tuple:
        for place, inner in enumerate(value):
            yield from _open_leaves(inner, (*path, place))


def _put(config: Any, path: Path, value: Any) -> Any:
    """Sets the value below; gives back what takes the container's place (a tuple cannot be written into)."""
    if not path:
        return value
    inner = _put(config[path[0]], path[1:], value)
    if isinstance(config, tuple):
        return tuple(inner if place == path[0] else old for place, old in enumerate(config))
    config[path[0]] = inner
    return config


def merged(base: Any, over: Any) -> Any:
    """Dicts joined key by key, whatever their depth; of what is in both, `over` counts."""
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return over
    return {**base, **{key: merged(base[key], value) if key in base else value for key, value in over.items()}}
