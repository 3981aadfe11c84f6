"""The options of `@rtrain.remote(...)` and `.options(...)`, and the job that is made from them."""

from __future__ import annotations

import os
import pathlib
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rtrain import _arguments, _runtime_env, _where
from rtrain._remote._methods import checked_returns

ACTORS_OPTIONS = (
    "max_concurrency",
    "max_restarts",
    "max_task_retries",
    "max_pending_calls",
    "lifetime",
    "namespace",
    "get_if_exists",
)
RESTARTS = "RTRAIN_REMOTE_RESTARTS"  # set for a worker that the head starts again when it is lost

CPUS = "RTRAIN_REMOTE_CPUS"  # variable of a worker: the CPUs that it may lend while it waits


@dataclass(frozen=True)
class Options:
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: float | None = None  # bytes
    resources: Mapping[str, float] = field(default_factory=dict)
    accelerator_type: str | None = None
    label_selector: Mapping[str, str] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    num_returns: int | str | None = None  # None: 1, and "streaming" for a generator
    name: str | None = None
    max_calls: int | None = None  # calls of one worker; 0: no limit
    max_retries: int | None = None
    retry_exceptions: bool | Sequence[type[BaseException]] | None = None
    namespace: str | None = None
    get_if_exists: bool = False
    lifetime: str | None = None
    max_concurrency: int | None = None
    max_restarts: int = 0
    max_task_retries: int = 0
    max_pending_calls: int = -1
    _generator_backpressure_num_objects: int | None = None

    def changed(self, **given: Any) -> Options:
        """Returns a copy with the given options. Raises TypeError for an unknown option, ValueError for one that is not
        supported.
        """
        known = {name: value for name, value in given.items() if name in Options.__dataclass_fields__}
        wrong = sorted(set(given) - set(known) - set(_arguments.REMOTE))
        if wrong:
            raise TypeError(
                f"rtrain.remote has no option {', '.join(wrong)}; there are {', '.join(Options.__dataclass_fields__)}"
            )
        _arguments.check("rtrain.remote", {name: value for name, value in given.items() if name not in known}, _arguments.REMOTE)
        options = replace(
            self, **{name: value for name, value in known.items() if value is not None or name in ("num_cpus", "num_gpus")}
        )
        if options.lifetime == "detached":
            raise ValueError("an actor ends with its last handle or its driver; lifetime='detached' is not supported")
        if options.num_returns is not None:
            checked_returns(options.num_returns)
        if options.get_if_exists and not options.name:
            raise ValueError("get_if_exists finds an actor by its name, and there is no name=")
        options._check_numbers()
        _check_repetitions(options)
        unsupported = sorted(set(options.runtime_env) - {"env_vars"})
        if unsupported:
            raise ValueError(f"runtime_env of a remote call takes env_vars; {', '.join(unsupported)} is not supported")
        return options

    def repetitions(self) -> dict[str, Any]:
        """Returns the options that concern workers which execute several calls."""
        return {name: getattr(self, name) for name in ("max_calls", "max_retries", "retry_exceptions")}

    def calls_of_a_worker(self) -> int:
        """Returns how many calls a worker executes before it ends, so that the memory of its GPUs is free; 0: no limit."""
        return (1 if self.num_gpus else 0) if self.max_calls is None else self.max_calls

    def _check_numbers(self) -> None:
        for name, least in (
            ("max_concurrency", 1),
            ("max_restarts", -1),
            ("max_task_retries", -1),
            ("max_pending_calls", -1),
            ("_generator_backpressure_num_objects", 1),
        ):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < least):
                raise ValueError(f"{name} is {value!r}; it is a whole number, {least} or more")

    def check_for_function(self) -> None:
        """Raises ValueError for options that only actors have."""
        for name in ACTORS_OPTIONS:
            if getattr(self, name) != Options.__dataclass_fields__[name].default:
                raise ValueError(f"{name} is an option of actors, and this is a function")

    def job(self, name: str, *, actor: bool, function: str = "") -> dict[str, Any]:
        """Returns the job of a run with one worker that has these resources. function: the function or class, for a label.

        A function without `num_cpus` has one CPU. An actor without it has none: it lives long and mostly waits.
        """
        amounts: dict[str, Any] = {"CPU": _amount(self.num_cpus, 0 if actor else 1)}
        if self.num_gpus:
            amounts["GPU"] = self.num_gpus
        if self.memory:
            amounts["memory"] = int(self.memory)
        scaling: dict[str, Any] = {
            "workers": 1,
            "use_gpu": bool(self.num_gpus),
            "resources_per_worker": {**amounts, **self.resources},
        }
        if self.accelerator_type:
            scaling["accelerator_type"] = self.accelerator_type
        if self.label_selector:
            scaling["label_selector"] = dict(self.label_selector)
        variables = _runtime_env.env_vars(_runtime_env.merged(_where.runtime_env(), self.runtime_env))
        own = {} if "PYTHONPATH" in variables else {"PYTHONPATH": _import_path(), _runtime_env.OWN_ENV: "PYTHONPATH"}
        if code := _runtime_env.inherited_code():
            own[_runtime_env.CODE] = code  # a fit() in the remote function uses it
        return {
            "version": 1,
            "name": name,
            "entrypoint": [sys.executable, "-m", "rtrain._remote._actors._main" if actor else "rtrain._remote._worker"],
            "env": {**own, **variables, CPUS: f"{amounts['CPU']:g}", **({RESTARTS: "1"} if self.max_restarts else {})},
            "scaling": scaling,
            **({"failure": {"max_failures": self.max_restarts, "backoff": "100ms..10s"}} if self.max_restarts else {}),
            "labels": {"rtrain.remote": "actor" if actor else "task", **({"rtrain.function": function} if function else {})},
        }


def run_name(what: str) -> str:
    """Returns a new name for a run that does `what`."""
    return f"{plain_name(what)}-{secrets.token_hex(4)}"


def plain_name(what: str) -> str:
    """Returns the characters of `what` that a name or a label may have."""
    return re.sub(r"[^A-Za-z0-9._-]", "", what).strip("._-")[:100] or "remote"


def _check_repetitions(options: Options) -> None:
    for name, least in (("max_calls", 0), ("max_retries", -1)):
        value = getattr(options, name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise ValueError(f"{name} is {value!r}; it is a whole number, {least} or more")
    given = options.retry_exceptions
    if given is None or isinstance(given, bool):
        return
    kinds = given if isinstance(given, (list, tuple)) else [given]
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise ValueError("retry_exceptions is True, False or a list of classes of exceptions")


def _amount(given: float | None, otherwise: float) -> float:
    return otherwise if given is None else given


def _import_path() -> str:
    """Returns a PYTHONPATH with this package's folder, for workers on this machine without an installed rtrain. Other
    machines ignore it.
    """
    package = str(pathlib.Path(__file__).resolve().parents[2])
    return os.pathsep.join(dict.fromkeys([package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]))
