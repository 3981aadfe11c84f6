"""The directories of an attempt's checkpoints in local mode, named as a cluster's agents name them
(daemon/agent/checkpoint_names.cpp in the sources)."""

from __future__ import annotations


class Names:
    """No name is given twice: what is committed is never replaced. Every rank counts for itself, from the same wishes."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._last: dict[str, int] = {}  # the number behind a name that was wished several times
        self.said = ""  # about the last name, when it was had for the second time

    def next(self, wish: str | None, default: str) -> str:
        """ValueError for a wish that is no name of a directory."""
        wanted = wish or default
        if "/" in wanted or wanted.startswith("."):
            raise ValueError(f"the checkpoint's directory name {wanted!r} may not contain '/' or begin with '.'")
        self.said = ""
        name, number = wanted, self._last.get(wanted, 1)
        while name in self._given:
            number += 1
            name = f"{wanted}-{number}"
        if number > 1 and wanted not in self._last:
            self.said = (
                f"the name {wanted!r} was given to a checkpoint of this attempt before, which stays as it is: this one is {name}, "
                "and later ones are numbered on"
            )
        self._last[wanted] = number
        self._given.add(name)
        return name
