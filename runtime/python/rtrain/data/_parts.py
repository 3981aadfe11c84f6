"""Where the files of a write go: their names, what a folder that has files already means, and how they appear.

A file is named by its run, its write and its block. So an attempt that is retried replaces what an earlier attempt of its run
wrote, ranks never write one name, and another run's files stay. Files are written under hidden names and renamed when all of
them are whole: who reads the folder sees none of a write that failed.
"""

from __future__ import annotations

import enum
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyarrow import fs

from rtrain.data import _paths


class SaveMode(str, enum.Enum):
    """What a write does in a folder with files of other writes."""

    APPEND = "append"  # adds its own, and says so
    OVERWRITE = "overwrite"  # removes those of the same kind (.parquet, .csv, .json) once its own are there
    IGNORE = "ignore"  # writes nothing
    ERROR = "error"  # raises FileExistsError


_process = time.strftime("%Y%m%dT%H%M%S", time.gmtime()) + secrets.token_hex(3)  # the run of a process that has none
_writes: dict[tuple[str, ...], int] = {}  # successful writes by their folder and identity


@dataclass(frozen=True)
class Writer:
    """Who writes: the run, the rank, and how many reports the rank had made, from the run's beginning."""

    run: str
    rank: int = 0
    world: int = 1
    reports: int = 0

    @staticmethod
    def current() -> Writer:
        session = sys.modules.get("rtrain.train._session")
        found = None if session is None else session.active()
        if found is not None and found.facts.run_id:
            facts = found.facts
            return Writer(_word(facts.run_id), facts.world_rank, facts.world_size, facts.reports_before + found.reports_made)
        run, rank = os.environ.get("RTRAIN_RUN_ID", ""), os.environ.get("RANK", "0")
        return Writer(_word(run) or _process, int(rank) if rank.isdigit() else 0)


def _word(run: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", run)


@dataclass
class Parts:
    """The files of one write. `add` gives the next one's hidden path; `commit` makes all appear; `drop` removes what was begun."""

    caller: str
    suffix: str
    system: Any
    folder: str
    writer: Writer
    mode: SaveMode
    _others: list[str] = field(default_factory=list)
    _made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._key = (self.folder, self.suffix, self.writer.run, str(self.writer.rank), str(self.writer.reports))
        number = _writes.get(self._key, 0)
        self._write = f"w{self.writer.reports:06}n{number:03}"

    def begin(self) -> bool:
        """False: nothing is to be written."""
        self.system.create_dir(self.folder, recursive=True)
        self._others = [name for name in self._names() if not name.startswith((".", "_")) and not self._of_this_run(name)]
        if not self._others:
            return True
        there = f"{self.folder} has {len(self._others)} files of other writes ({self._others[0]} ...)"
        if self.mode is SaveMode.ERROR:
            raise FileExistsError(f"{self.caller}: {there}; mode='append' adds to them, mode='overwrite' replaces them")
        if self.mode is SaveMode.IGNORE:
            _say(f"{self.caller}: {there}, and mode='ignore': nothing is written")
            return False
        own = f"part-{self.writer.run}-"
        if self.mode is SaveMode.APPEND and not all(name.startswith(own) for name in self._others):
            _say(f"{self.caller}: {there}: rows are added to them; mode='overwrite' replaces them")
        return True

    def add(self) -> str:
        self._made.append(f"{self._stem(self.writer.rank)}{len(self._made):05}.{self.suffix}")
        return self._hidden(self._made[-1])

    def commit(self) -> None:
        for name in self._made:
            self.system.move(self._hidden(name), f"{self.folder}/{name}")
        gone = [name for name in self._names() if self._is_stale(name)]
        if self.mode is SaveMode.OVERWRITE:
            gone += [name for name in self._others if name.endswith(f".{self.suffix}")]
        for name in gone:
            with suppress(FileNotFoundError):  # another rank removed it
                self.system.delete_file(f"{self.folder}/{name}")
        _writes[self._key] = _writes.get(self._key, 0) + 1

    def drop(self) -> None:
        for name in self._made:
            with suppress(OSError):
                self.system.delete_file(self._hidden(name))

    def _names(self) -> Iterator[str]:
        infos = self.system.get_file_info(fs.FileSelector(self.folder))
        return iter(sorted(info.base_name for info in infos if info.type == fs.FileType.File))

    def _stem(self, rank: int) -> str:
        return f"part-{self.writer.run}-{self._write}-r{rank:04}-"

    def _hidden(self, name: str) -> str:
        return f"{self.folder}/.{name}.incomplete"

    def _of_this_run(self, name: str) -> bool:
        """What this run's other ranks write, or this write in an earlier attempt: no files of others."""
        found = _NAME.fullmatch(name)
        if found is None or found["run"] != self.writer.run:
            return False
        return found["write"] == self._write or int(found["rank"]) != self.writer.rank

    def _is_stale(self, name: str) -> bool:
        """Of an earlier attempt's same write, which had more blocks or more ranks."""
        found = _NAME.fullmatch(name)
        if found is None or name in self._made or (found["run"], found["write"]) != (self.writer.run, self._write):
            return False
        rank = int(found["rank"])
        return rank == self.writer.rank or (rank >= self.writer.world and rank % self.writer.world == self.writer.rank)


_NAME = re.compile(r"part-(?P<run>[A-Za-z0-9]+)-(?P<write>w\d+n\d+)-r(?P<rank>\d+)-\d+\.\w+")


def opened(caller: str, suffix: str, path: Any, filesystem: Any, mode: SaveMode | str) -> Parts:
    """ValueError for a mode that there is not."""
    try:
        wanted = SaveMode(mode)
    except ValueError:
        modes = ", ".join(repr(one.value) for one in SaveMode)
        raise ValueError(f"{caller}: mode is {mode!r}; it is one of {modes}") from None
    system, folder = _paths.located(os.fspath(path), filesystem)
    return Parts(caller, suffix, system, folder.rstrip("/") or folder, Writer.current(), wanted)


def _say(text: str) -> None:
    print(f"rtrain: {text}", file=sys.stderr, flush=True)
