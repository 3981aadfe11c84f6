"""Handles `runtime_env` of `init` and of one run: the supported keys, how the two are merged, and what a run inherits if
another run's program submits it.

A process of a run inherits the variables of its run's `env`, the names of its `secrets`, and its code, as the agent names
them in RTRAIN_ENV_NAMES, RTRAIN_SECRET_NAMES and RTRAIN_CODE_SHA256. A secret's value is read from this process's
environment and sent as a secret again; no record contains it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

OWN_ENV = "RTRAIN_OWN_ENV"  # variable of a run: names in its env and secrets that rtrain has set, not the user
CODE = "RTRAIN_CODE_SHA256"
_INTERNAL = ("RTRAIN_DRIVER_", "RTRAIN_REMOTE_", "RTRAIN_RESUME_", "RTRAIN_TUNE_", OWN_ENV, CODE)

_INSTEAD = {
    "pip": "install what the loop needs on the nodes",
    "uv": "install what the loop needs on the nodes",
    "conda": "install what the loop needs on the nodes, and run the driver with the same environment",
    "py_modules": "keep the modules beside the driver's script, or in working_dir: that folder travels along",
    "excludes": "name what stays behind in working_dir/.rtrainignore",
    "container": "start the agents in the container",
    "image_uri": "start the agents in the container",
}


def checked(given: Mapping[str, Any] | None, what: str) -> dict[str, Any]:
    """Raises ValueError for an unsupported key, TypeError if it is no dict."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} is a {type(given).__name__}; it is a dict of env_vars and working_dir")
    for name in given:
        if name not in ("env_vars", "working_dir"):
            raise ValueError(
                f"{what}[{name!r}] is not carried out by this version (env_vars and working_dir are); "
                + _INSTEAD.get(str(name), _INSTEAD["pip"])
            )
    values = given.get("env_vars")
    if values is not None and not isinstance(values, Mapping):
        raise TypeError(f"{what}['env_vars'] is a {type(values).__name__}; it is a dict of names and texts")
    return dict(given)


def env_vars(given: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in (given.get("env_vars") or {}).items()}


def merged(base: Mapping[str, Any], over: Mapping[str, Any] | None) -> dict[str, Any]:
    """Merges both, including their variables; `over` wins."""
    return {**base, **(over or {}), "env_vars": {**env_vars(base), **env_vars(over or {})}}


def inherited() -> dict[str, Any]:
    """Returns the runtime_env that runs of this process have from the run that this process belongs to: none outside of a run."""
    variables = {name: os.environ[name] for name in _user_names("RTRAIN_ENV_NAMES")}
    return {"env_vars": variables} if variables else {}


def inherited_secrets(job: Mapping[str, Any]) -> list[str]:
    """Returns the names of the secrets that a job has from the run that this process belongs to. A name that the job itself has, in its
    `env` or its `secrets`, is the job's own."""
    own = {*(job.get("env") or {}), *(job.get("secrets") or [])}
    return [name for name in _user_names("RTRAIN_SECRET_NAMES") if name not in own]


def inherited_code() -> str:
    """Returns the hash of the code archive of the run that this process belongs to; "" if there is none."""
    return os.environ.get(CODE, "")


def _user_names(variable: str) -> list[str]:
    """Returns the names that the agent gives in `variable`, of variables that are set here and that rtrain did not set by itself."""
    own = os.environ.get(OWN_ENV, "").split(",")
    names = os.environ.get(variable, "").split(",")
    return [name for name in names if name in os.environ and name not in own and not name.startswith(_INTERNAL)]
