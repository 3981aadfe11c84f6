"""The directories and the shares of datasets that a loop requests, for the sessions of a cluster and of local mode."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def removed_unless_reported(directory: str, reported: set[str]) -> Iterator[str]:
    """Gives the directory for the block. Then removes it, unless a report has added it to `reported`."""
    try:
        yield directory
    finally:
        if directory in reported:
            reported.discard(directory)
        else:
            shutil.rmtree(directory, ignore_errors=True)


def scratch_dir() -> str:
    """Returns the worker's directory on the node's fast local disk. Without an agent, returns the system's temporary
    directory.
    """
    return os.environ.get("RTRAIN_SCRATCH_DIR") or tempfile.gettempdir()


def shard_of(shards: Any, name: str | None, state_dict: Any) -> Any:
    """Returns this rank's share of the dataset. Raises KeyError if the trainer has no such dataset."""
    if shards is None:
        raise KeyError(f"there is no dataset {name!r}: no datasets were given to the trainer")
    return shards.shard(name, state_dict)
