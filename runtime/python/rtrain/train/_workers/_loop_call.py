"""Calls a training function with its config, or without."""

from __future__ import annotations

import inspect
from typing import Any


def called(loop: Any, config: Any) -> Any:
    return loop(config if config is not None else {}) if wants_config(loop) else loop()


def wants_config(loop: Any) -> bool:
    """Returns whether the loop takes the config. Raises ValueError for a loop with more required arguments."""
    try:
        parameters = list(inspect.signature(loop).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p.name for p in positional if p.default is p.empty]
    required += [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if len(required) > 1:
        raise ValueError(
            f"train_loop_per_worker takes no argument or one (the config), and this one needs {len(required)}: {', '.join(required)}; "
            "put the values into train_loop_config"
        )
    if required or any(
        p.kind is p.VAR_POSITIONAL for p in parameters
    ):  # a loop with `*args` is the wrapper of a plain decorator, which passes its arguments to the user's function
        return True
    return bool(positional and positional[0].name in ("config", "train_loop_config"))
