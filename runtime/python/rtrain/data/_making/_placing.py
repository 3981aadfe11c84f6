"""Reads the arguments that set where an operation's functions run. They have the names of Ray Data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtrain._arguments import CARRIED_OUT, FUNCTIONS, check
from rtrain._lazy import public_in


@dataclass(frozen=True)
class TaskPoolStrategy:
    """`compute=` of a function: at most `size` calls at the same time; None: as many as the CPUs allow."""

    size: int | None = None

    def __post_init__(self) -> None:
        _check_sizes("TaskPoolStrategy", size=self.size)


@dataclass(frozen=True)
class ActorPoolStrategy:
    """`compute=` of a class: an instance in each of `size` threads or processes, or in at most `max_size` of them."""

    size: int | None = None
    min_size: int | None = None
    max_size: int | None = None
    initial_size: int | None = None

    def __post_init__(self) -> None:
        sizes = {"min_size": self.min_size, "max_size": self.max_size, "initial_size": self.initial_size}
        _check_sizes("ActorPoolStrategy", size=self.size, **sizes)
        if self.size is not None and any(size is not None for size in sizes.values()):
            raise ValueError("ActorPoolStrategy: size is given, so min_size, max_size and initial_size must not be")
        if self.min_size is not None and self.max_size is not None and self.min_size > self.max_size:
            raise ValueError(f"ActorPoolStrategy: min_size is {self.min_size}, and max_size {self.max_size}")


@dataclass(frozen=True)
class Placing:
    """concurrency: the number of simultaneous calls; None if the user set none. num_cpus, memory: CPUs and bytes of each thread
    or process that makes calls. in_rank: the functions need something that only the rank's process has."""

    concurrency: int | None = None
    num_cpus: float = 1.0
    memory: int = 0
    in_rank: bool = False


def placing_of(caller: str, given: Mapping[str, Any], *, is_class: bool) -> Placing:
    """Returns the settings of an operation's arguments. Arguments without an effect are refused, or a warning names them once."""
    check(caller, {name: value for name, value in given.items() if name not in CARRIED_OUT}, FUNCTIONS)
    concurrency, compute = given.get("concurrency"), given.get("compute")
    if compute is not None:
        if concurrency is not None:
            raise ValueError(f"{caller}: concurrency and compute are both given, and mean the same")
        concurrency = _concurrency_of(caller, compute, is_class=is_class)
    num_cpus, memory = given.get("num_cpus"), given.get("memory")
    for name, value in (("num_cpus", num_cpus), ("memory", memory)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
            raise ValueError(f"{caller}: {name} is {value!r}; it is a number from 0 on")
    return Placing(
        _checked(caller, concurrency), 1.0 if num_cpus is None else float(num_cpus), int(memory or 0), bool(given.get("num_gpus"))
    )


def _concurrency_of(caller: str, compute: Any, *, is_class: bool) -> int | None:
    """Returns the number of simultaneous calls that a strategy sets. Ray's strategies have the same names and fields."""
    kind = {"tasks": "TaskPoolStrategy", "actors": "ActorPoolStrategy"}.get(str(compute), type(compute).__name__)
    if kind not in ("TaskPoolStrategy", "ActorPoolStrategy"):
        raise TypeError(f"{caller}: compute is {compute!r}; it is a TaskPoolStrategy or an ActorPoolStrategy")
    if is_class != (kind == "ActorPoolStrategy"):
        needed, got = ("ActorPoolStrategy", "a class") if is_class else ("TaskPoolStrategy", "a function")
        raise ValueError(f"{caller}: compute is {kind}, and {got} needs {needed}")
    sizes = [getattr(compute, name, None) for name in ("size", "max_size", "min_size")]
    return next((size for size in sizes if isinstance(size, int)), None)


def _checked(caller: str, concurrency: Any) -> int | None:
    """Returns the number of simultaneous calls. A pair means a growing pool in Ray: its second number is used."""
    if isinstance(concurrency, tuple | list) and len(concurrency) in (2, 3):
        concurrency = concurrency[1]
    if concurrency is None:
        return None
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise ValueError(f"{caller}: concurrency is {concurrency!r}; it is a whole number from 1 on, or a pair of them")
    return concurrency


def _check_sizes(strategy: str, **sizes: int | None) -> None:
    for name, size in sizes.items():
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise ValueError(f"{strategy}: {name} is {size!r}; it is a whole number from 1 on")


public_in("rtrain.data", TaskPoolStrategy, ActorPoolStrategy)
