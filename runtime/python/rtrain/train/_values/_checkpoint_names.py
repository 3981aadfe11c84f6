"""Defines which names a program may give to checkpoints' directories, and makes the names that local mode gives (as a
cluster's agents do: base/checkpoint_name.hpp and daemon/agent/machine/checkpoint_names.cpp in the sources).
"""

from __future__ import annotations

import re

MANIFEST = ".manifest.json"  # a file in the directory of a committed checkpoint
_BYTES_MOST = 200  # most bytes of a checkpoint's name, and of the path of its directory
PARTS_MOST = 8  # most parts in the path of a directory that the loop has made itself
_ATTEMPT = re.compile(r".-a[0-9]{3,}\Z", re.DOTALL)
_CONTROL = re.compile(r"[/\\\x00-\x1f\x7f]")
_OWN = ("attempts", "code", "logs", "names")


def has_attempt(directory: str) -> bool:
    """Returns whether the name contains the attempt, as `latest-a002` does."""
    return _ATTEMPT.search(directory) is not None


def fault_of(name: str) -> str:
    """Returns why the text cannot be the exact name of a checkpoint; empty if it can."""
    size = len(name.encode(errors="surrogateescape"))
    if not name:
        return "is empty"
    if size > _BYTES_MOST:
        return f"has {size} bytes; the most is {_BYTES_MOST}"
    if _CONTROL.search(name):
        return "may not contain '/', '\\' or control characters"
    if name.startswith("."):
        return "may not begin with '.'"
    if name in _OWN:
        return "is that of a directory which every run has"
    if name.endswith((".json", ".pkl")):
        return "may not end with .json or .pkl, as the run's own files do"
    if has_attempt(name):
        return "may not end with -a and digits: rtrain itself numbers names so"
    return ""


def path_fault_of(path: str) -> str:
    """Returns why the path, relative to the run's directory, cannot be a checkpoint's directory; empty if it can.
    Its first part is a name as above. The other parts are directories that the user made.
    """
    first, *deeper = path.split("/")
    if not deeper:
        return fault_of(path)
    size = len(path.encode(errors="surrogateescape"))
    if size > _BYTES_MOST:
        return f"has {size} bytes; the most is {_BYTES_MOST}"
    if why := fault_of(first):
        return f"begins with {first!r}, which {why}"
    if "" in deeper:
        return "may not have an empty part"
    if any(part.startswith(".") for part in deeper):
        return "may not have a part that begins with '.'"
    if any(_CONTROL.search(part) for part in deeper):
        return "may not contain '\\' or control characters"
    if len(deeper) >= PARTS_MOST:
        return f"has {len(deeper) + 1} parts; the most is {PARTS_MOST}"
    return ""


def check(name: str | None) -> None:
    """Raises ValueError for a name that no checkpoint can have."""
    if name and (why := fault_of(name)):
        raise ValueError(f"the checkpoint's directory name {name!r} {why}")


class Names:
    """Chooses the names of checkpoints so that none is used twice, since a committed checkpoint is never replaced.
    Every rank computes the same names from the same requests.
    """

    def __init__(self) -> None:
        self._given: set[str] = set()
        # key: a name that was requested several times; value: the number that was appended last
        self._last: dict[str, int] = {}
        self.notice = ""  # message about the last name, if it had been requested before; else empty

    def given(self, name: str) -> None:
        """Records that a name was claimed in the run's directory."""
        self.notice = ""
        self._given.add(name)
        self._last.setdefault(name, 1)

    def next(self, wish: str) -> str:
        """Returns a name for the requested name. The attempt's number is appended to it later."""
        self.notice = ""
        name, number, again = wish, self._last.get(wish, 1), wish in self._given
        while name in self._given:
            number += 1
            name = f"{wish}-{number}"
        if again and self._last.get(wish, 1) == 1:
            self.notice = (
                f"the name {wish!r} was given to a checkpoint of this attempt before, which stays as it is: this one is {name}, "
                "and later ones are numbered on"
            )
        self._last[wish] = number
        self._given.add(name)
        return name
