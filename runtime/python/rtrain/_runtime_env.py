"""`runtime_env`, of `init` and of one run: which of its keys are carried out, and how the two become one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    """ValueError for a key that is not carried out, TypeError for what is no dict."""
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
    """`over` wins; the variables of both are there."""
    return {**base, **(over or {}), "env_vars": {**env_vars(base), **env_vars(over or {})}}
