"""Environment variables of a driver and a worker: RTRAIN_TRAIN_*, and Ray's names for the supported ones."""

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
# Seconds for which a worker waits for a head that does not answer, so that a restart of the head ends no training.
HEAD_AWAY_S = 120.0
_fits = 0  # number of `fit()` calls without a name, in a process on a node


def started_by_agent() -> bool:
    """Returns whether this process is a worker."""
    return bool(os.environ.get("RTRAIN_WORKER_SOCKET"))


def setting(name: str, otherwise: str = "") -> str:
    """Returns RTRAIN_TRAIN_<name>, otherwise RAY_TRAIN_<name>, otherwise the default."""
    return os.environ.get(_OURS + name) or os.environ.get(_THEIRS + name) or otherwise


def enabled(name: str, *, otherwise: bool) -> bool:
    return setting(name, "1" if otherwise else "0").lower() in ("1", "true", "yes", "on")


def propagated() -> dict[str, str]:
    """Returns the driver's environment variables that its workers also get, beside those in `env`."""
    return {key: value for key, value in os.environ.items() if key.startswith((_OURS, _THEIRS, "NCCL_", "TORCH_NCCL_"))}


def run_name(given: str | None) -> str:
    """Returns the checked name. Without one, makes a name: on a node one that the same `fit()` in the program's next
    attempt gets too, elsewhere one from the date.
    """
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
    """Returns a name from the enclosing run, this process's rank in it, and the number of this `fit()` in the
    attempt. Files in the attempt's scratch directory count the calls in all processes. Returns an empty text without
    such a directory.
    """
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
    """Converts a `file://` URI to its path. Returns any other text unchanged."""
    if not text.startswith("file://"):
        return text
    host, slash, rest = text.removeprefix("file://").partition("/")
    if host not in ("", "localhost"):
        raise ValueError(f"{text} names the host {host!r}: a file URI of this machine is file:///path")
    return urllib.parse.unquote(slash + rest)
