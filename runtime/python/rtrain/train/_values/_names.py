"""Environment variables of a driver and a worker: RTRAIN_TRAIN_*, with Ray's names accepted where they mean something."""

from __future__ import annotations

import datetime
import os
import pathlib
import random
import re
import string
import urllib.parse

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_OURS, _THEIRS = "RTRAIN_TRAIN_", "RAY_TRAIN_"
HEAD_AWAY_S = 120.0  # so long a worker waits for a head that is away: a restart of the head ends no training
_fits = 0  # without a name, on a node


def started_by_agent() -> bool:
    """Returns whether this process is a worker."""
    return bool(os.environ.get("RTRAIN_WORKER_SOCKET"))


def setting(name: str, otherwise: str = "") -> str:
    """RTRAIN_TRAIN_<name>, else RAY_TRAIN_<name>, else `otherwise`."""
    return os.environ.get(_OURS + name) or os.environ.get(_THEIRS + name) or otherwise


def enabled(name: str, *, otherwise: bool) -> bool:
    return setting(name, "1" if otherwise else "0").lower() in ("1", "true", "yes", "on")


def propagated() -> dict[str, str]:
    """What of the driver's environment its workers get as well, beside what is named in `env`."""
    return {key: value for key, value in os.environ.items() if key.startswith((_OURS, _THEIRS, "NCCL_", "TORCH_NCCL_"))}


def run_name(given: str | None) -> str:
    """The name, checked. Where none is given: on a node one that the same `fit()` of the program's next attempt has too, else one
    made of the date."""
    if given is None and (name_on_node := _name_on_node()):
        return name_on_node
    if given is None:
        stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        return f"rtrain_run-{stamp}-" + "".join(random.choices(string.ascii_lowercase, k=4))
    if not _NAME.fullmatch(given):
        raise ValueError(
            f"the run's name {given!r} is not one: letters, digits, '.', '_' and '-', at most 128, beginning with a letter "
            "or digit"
        )
    return given


def _name_on_node() -> str:
    """Of the run that this process belongs to, its rank, and the number of this `fit()` among those of the attempt, in whatever
    process they are: files of the attempt's scratch directory count them. Empty where there is no such directory."""
    global _fits
    run, scratch = os.environ.get("RTRAIN_RUN_ID"), os.environ.get("RTRAIN_SCRATCH_DIR")
    if not run or not scratch:
        return ""
    rank = os.environ.get("RANK", "0")
    of_rank = f"-rank{rank}" if rank != "0" else ""
    while True:
        _fits += 1
        try:
            (pathlib.Path(scratch) / f".fit{of_rank}-{_fits}").touch(exist_ok=False)
        except FileExistsError:
            continue
        except OSError:
            return ""
        return f"rtrain_run-{run}{of_rank}-{_fits}"


def local_path(text: str) -> str:
    """A `file://` URI as the path that it names; anything else as it is."""
    if not text.startswith("file://"):
        return text
    host, slash, rest = text.removeprefix("file://").partition("/")
    if host not in ("", "localhost"):
        raise ValueError(f"{text} names the host {host!r}: a file URI of this machine is file:///path")
    return urllib.parse.unquote(slash + rest)
