"""The parts of a search space: functions that draw a value, and the classes behind them, which a searcher may read."""

from __future__ import annotations

import inspect
import math
import numbers
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = [
    "Categorical",
    "Domain",
    "Float",
    "Function",
    "Integer",
    "Normal",
    "choice",
    "grid_search",
    "lograndint",
    "loguniform",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "sample_from",
    "uniform",
]


class Domain:
    """A value that is drawn for each trial."""

    def sample(self, rng: random.Random | None = None, spec: Any = None) -> Any:
        """Returns one value. `spec.config` is the trial's config as far as it is drawn; only `sample_from` reads it."""
        raise NotImplementedError(f"{type(self).__name__} draws nothing: override sample(rng, spec)")

    def is_valid(self, value: Any) -> bool:
        """Returns whether `value` might have been drawn."""
        raise NotImplementedError(f"{type(self).__name__} cannot tell: override is_valid(value)")

    @property
    def domain_str(self) -> str:
        """Returns the domain as it is written in a space."""
        return repr(self)


class Float(Domain):
    """A number from `lower` up to `upper`, by its logarithm where `log` is set, rounded to multiples of `q`."""

    def __init__(self, lower: float, upper: float, *, log: bool = False, q: float | None = None) -> None:
        self.lower, self.upper, self.log, self.q = float(lower), float(upper), log, q

    def sample(self, rng: random.Random | None = None, spec: Any = None) -> float:
        generator = rng or random.Random()
        if self.log:
            number = math.exp(generator.uniform(math.log(self.lower), math.log(self.upper)))
        else:
            number = generator.uniform(self.lower, self.upper)
        return _to_step(min(max(number, self.lower), self.upper), self.lower, self.upper, self.q)

    def is_valid(self, value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and self.lower <= value <= self.upper

    def __repr__(self) -> str:
        return f"Float({self.lower:g}, {self.upper:g}{_marks(self.log, self.q)})"


class Integer(Domain):
    """A whole number from `lower` to below `upper` (to `upper` itself where `q` is given)."""

    def __init__(self, lower: int, upper: int, *, log: bool = False, q: int | None = None) -> None:
        self.lower, self.upper, self.log, self.q = int(lower), int(upper), log, q

    @property
    def _largest(self) -> int:
        return self.upper if self.q is not None else self.upper - 1

    def sample(self, rng: random.Random | None = None, spec: Any = None) -> int:
        generator = rng or random.Random()
        if self.log:
            number = int(math.exp(generator.uniform(math.log(self.lower), math.log(self._largest + 1))))
        else:
            number = generator.randint(self.lower, self._largest)
        return int(_to_step(min(max(number, self.lower), self._largest), self.lower, self._largest, self.q))

    def is_valid(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.lower <= value <= self._largest

    def __repr__(self) -> str:
        return f"Integer({self.lower}, {self.upper}{_marks(self.log, self.q)})"


class Normal(Domain):
    """A number of the normal distribution, rounded to multiples of `q`."""

    def __init__(self, mean: float = 0.0, sd: float = 1.0, *, q: float | None = None) -> None:
        self.mean, self.sd, self.q = float(mean), float(sd), q

    def sample(self, rng: random.Random | None = None, spec: Any = None) -> float:
        number = (rng or random.Random()).gauss(self.mean, self.sd)
        return number if self.q is None else round(number / self.q) * self.q

    def is_valid(self, value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool)

    def __repr__(self) -> str:
        return f"Normal({self.mean:g}, {self.sd:g}{_marks(False, self.q)})"  # noqa: FBT003


class Categorical(Domain):
    """One of the `categories`, each as likely as the others."""

    def __init__(self, categories: Sequence[Any]) -> None:
        self.categories = list(categories)

    def sample(self, rng: random.Random | None = None, spec: Any = None) -> Any:
        return (rng or random.Random()).choice(self.categories)

    def is_valid(self, value: Any) -> bool:
        return value in self.categories

    def __len__(self) -> int:
        return len(self.categories)

    def __repr__(self) -> str:
        return f"Categorical({self.categories!r})"


class Function(Domain):
    """The result of a function: of `spec` (`spec.config` contains the values drawn so far), or without arguments."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self.takes_spec = _takes_one(func)

    def sample(self, rng: random.Random | None = None, spec: Any = None) -> Any:
        return self.func(spec) if self.takes_spec else self.func()

    def is_valid(self, value: Any) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Function({getattr(self.func, '__name__', self.func)!r})"


def _takes_one(func: Callable[..., Any]) -> bool:
    try:
        return bool(inspect.signature(func).parameters)
    except (TypeError, ValueError):
        return True


def _marks(log: bool, q: float | None) -> str:  # noqa: FBT001
    return (", log=True" if log else "") + (f", q={q:g}" if q is not None else "")


def _to_step(value: float, lower: float, upper: float, q: float | None) -> float:
    """The nearest multiple of `q` within the bounds."""
    if q is None:
        return value
    least, most = math.ceil(lower / q - 1e-9), math.floor(upper / q + 1e-9)
    step = min(max(round(value / q), least), most) * q
    return step if isinstance(q, numbers.Integral) else float(f"{step:.12g}")


# -- the names that scripts use ---------------------------------------------------------------------------------------
def grid_search(values: Sequence[Any]) -> dict[str, list[Any]]:
    """Tries every one of `values` in a trial of its own; several grids are crossed. `{"grid_search": [...]}` means the same."""
    if isinstance(values, str | Mapping) or not hasattr(values, "__iter__"):
        raise ValueError(f"grid_search takes a list of values, not {values!r}")
    listed = list(values)
    if not listed:
        raise ValueError("grid_search: the list of values is empty, so there would be no trial")
    return {"grid_search": listed}


def choice(categories: Sequence[Any]) -> Categorical:
    """Draws one of `categories`, each as likely as the others."""
    if isinstance(categories, str | Mapping) or not hasattr(categories, "__iter__"):
        raise ValueError(f"choice takes a list of categories, not {categories!r}")
    listed = list(categories)
    if not listed:
        raise ValueError("choice: the list of categories is empty")
    return Categorical(listed)


def uniform(lower: float, upper: float) -> Float:
    """Draws a number between `lower` and `upper`."""
    _check_bounds("uniform", lower, upper)
    return Float(lower, upper)


def quniform(lower: float, upper: float, q: float) -> Float:
    """Draws as uniform, rounded to multiples of `q`; `upper` itself may be drawn."""
    _check_bounds("quniform", lower, upper, q=q)
    return Float(lower, upper, q=q)


def loguniform(lower: float, upper: float, base: float = 10) -> Float:
    """Draws a number between `lower` and `upper`, with evenly spread logarithms. `base` makes no difference."""
    _check_bounds("loguniform", lower, upper, log=True, base=base)
    return Float(lower, upper, log=True)


def qloguniform(lower: float, upper: float, q: float, base: float = 10) -> Float:
    """Draws as loguniform, rounded to multiples of `q`."""
    _check_bounds("qloguniform", lower, upper, log=True, base=base, q=q)
    return Float(lower, upper, log=True, q=q)


def randint(lower: int, upper: int) -> Integer:
    """Draws a whole number from `lower` to `upper` - 1."""
    _check_bounds("randint", lower, upper, whole=True)
    return Integer(lower, upper)


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """Draws a multiple of `q` from `lower` to `upper`, which may itself be drawn."""
    _check_bounds("qrandint", lower, upper, q=q, whole=True)
    return Integer(lower, upper, q=q)


def lograndint(lower: int, upper: int, base: float = 10) -> Integer:
    """Draws a whole number from `lower` to `upper` - 1, with evenly spread logarithms."""
    _check_bounds("lograndint", lower, upper, log=True, base=base, whole=True)
    return Integer(lower, upper, log=True)


def qlograndint(lower: int, upper: int, q: int, base: float = 10) -> Integer:
    """Draws as lograndint, rounded to multiples of `q`; `upper` itself may be drawn."""
    _check_bounds("qlograndint", lower, upper, log=True, base=base, q=q, whole=True)
    return Integer(lower, upper, log=True, q=q)


def randn(mean: float = 0.0, sd: float = 1.0) -> Normal:
    """Draws a number of the normal distribution. mean, sd: its mean and standard deviation."""
    _check_numbers("randn", {"mean": mean, "sd": sd})
    if sd < 0:
        raise ValueError(f"randn: sd is {sd!r}; a standard deviation is not below 0")
    return Normal(mean, sd)


def qrandn(mean: float, sd: float, q: float) -> Normal:
    """Draws as randn, rounded to multiples of `q`."""
    normal = randn(mean, sd)
    _check_numbers("qrandn", {"q": q})
    if q <= 0:
        raise ValueError(f"qrandn: q is {q!r}; a step is above 0")
    return Normal(normal.mean, normal.sd, q=q)


def sample_from(func: Callable[..., Any]) -> Function:
    """Draws what `func(spec)` returns. `spec.config.lr` (or `spec["lr"]`) is what this trial has drawn for `lr`."""
    if not callable(func):
        raise ValueError(f"sample_from takes a function, not {func!r}")
    return Function(func)


def _check_numbers(name: str, values: Mapping[str, Any], *, whole: bool = False) -> None:
    description, kind = ("a whole number", numbers.Integral) if whole else ("a number", numbers.Real)  # NumPy's scalars are such
    for parameter, value in values.items():
        if isinstance(value, bool) or not isinstance(value, kind) or not math.isfinite(float(value)):
            raise ValueError(f"{name}: {parameter} is {value!r}; it is {description}")


def _check_bounds(
    name: str, lower: Any, upper: Any, *, log: bool = False, base: Any = 10, q: Any = None, whole: bool = False
) -> None:
    _check_numbers(name, {"lower": lower, "upper": upper, **({} if q is None else {"q": q})}, whole=whole)
    if lower >= upper:
        raise ValueError(f"{name}: upper is {upper!r}, which is not above lower, {lower!r}")
    if log and lower <= 0:
        raise ValueError(f"{name}: lower is {lower!r}; a logarithm needs a bound above 0")
    if log and (isinstance(base, bool) or not isinstance(base, int | float) or base <= 0 or base == 1):
        raise ValueError(f"{name}: base is {base!r}; it is a number above 0 other than 1")
    if q is not None and q <= 0:
        raise ValueError(f"{name}: q is {q!r}; a step is above 0")
    if q is not None and math.floor(upper / q + 1e-9) < math.ceil(lower / q - 1e-9):
        raise ValueError(f"{name}: q is {q!r}, of which no multiple lies between lower, {lower!r}, and upper, {upper!r}")
