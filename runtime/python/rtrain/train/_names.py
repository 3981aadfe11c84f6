"""Environment variables of a driver and a worker: RTRAIN_TRAIN_*, with Ray's names accepted where they mean something."""

from __future__ import annotations

import datetime
import os
import random
import re
import string

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_OURS, _THEIRS = "RTRAIN_TRAIN_", "RAY_TRAIN_"


def setting(name: str, otherwise: str = "") -> str:
    """RTRAIN_TRAIN_<name>, else RAY_TRAIN_<name>, else `otherwise`."""
    return os.environ.get(_OURS + name) or os.environ.get(_THEIRS + name) or otherwise


def enabled(name: str, *, otherwise: bool) -> bool:
    return setting(name, "1" if otherwise else "0").lower() in ("1", "true", "yes", "on")


def propagated() -> dict[str, str]:
    """What of the driver's environment its workers get as well, beside what is named in `env`."""
    return {key: value for key, value in os.environ.items() if key.startswith((_OURS, _THEIRS, "NCCL_", "TORCH_NCCL_"))}


def run_name(given: str | None) -> str:
    """The name, checked; one made of the date where none is given."""
    if given is None:
        stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        return f"rtrain_run-{stamp}-" + "".join(random.choices(string.ascii_lowercase, k=4))
    if not _NAME.fullmatch(given):
        raise ValueError(
            f"the run's name {given!r} is not one: letters, digits, '.', '_' and '-', at most 128, beginning with a letter "
            "or digit"
        )
    return given
