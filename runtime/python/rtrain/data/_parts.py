"""The files of a write: their names, the treatment of files that are already in the folder, and their publication.

A file is named by its run, its write, its rank, the attempt and process that wrote it, and its block. So two writes never share
a name. A retried attempt removes the files that an earlier attempt of its run wrote at the same point. Files of other runs
stay. Files have hidden names until all files of the write are complete, and are then renamed. So a reader of the folder sees no
files of a failed write.
"""

from __future__ import annotations

import enum
import itertools
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyarrow import fs

from rtrain._lazy import public_in
from rtrain.data import _paths


class SaveMode(str, enum.Enum):
    """The effect of a write on a folder that has files of other writes.

    APPEND adds its own files, and prints a notice. OVERWRITE removes the other files of the same kind (.parquet, .csv, .json)
    after it has written its own. IGNORE writes nothing. ERROR raises FileExistsError.
    """

    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"


_process = ""  # identifies the run of a process outside of a run
_numbers_lock = threading.Lock()
_numbers: dict[tuple[str, ...], set[int]] = {}  # numbers of the writes of this process, by folder and identity


def _begin_process() -> None:
    """Resets the writes of this process. A forked child needs it: it is another writer than its parent, and a thread of the
    parent may have held the lock."""
    global _process, _numbers_lock
    _process = time.strftime("%Y%m%dT%H%M%S", time.gmtime()) + secrets.token_hex(6)
    _numbers_lock = threading.Lock()
    _numbers.clear()


_begin_process()
os.register_at_fork(after_in_child=_begin_process)


@dataclass(frozen=True)
class Writer:
    """The identity of a writer: the run, the rank, the number of reports that the rank has made since the run's beginning, the
    attempt and the process. Outside of a run, `run` identifies the process, and the last two are 0 and empty."""

    run: str
    rank: int = 0
    world: int = 1
    reports: int = 0
    attempt: int = 0
    process: str = ""

    @staticmethod
    def current() -> Writer:
        rank, world = _number("RANK", 0), _number("WORLD_SIZE", 1)
        if "RTRAIN_REMOTE_SLOT" in os.environ:  # Calls that have returned are not repeated after the worker was restarted.
            return Writer(_process)
        session = sys.modules.get("rtrain.train._session")
        session_in_use = None if session is None else session.active()
        if session_in_use is not None and session_in_use.facts.run_id:
            facts = session_in_use.facts
            reports = facts.reports_before + session_in_use.reports_made
            run = facts.writes_as or facts.run_id
            return Writer(_word(run), facts.world_rank, facts.world_size, reports, facts.attempt, _process[-12:])
        if run := _word(os.environ.get("RTRAIN_RUN_ID", "")):
            attempt = re.search(r"-a(\d+)$", os.environ.get("RTRAIN_ATTEMPT", ""))
            return Writer(run, rank, world, 0, int(attempt[1]) if attempt else 0, _process[-12:])
        return Writer(_process, rank, world)


def _number(variable: str, default: int) -> int:
    value = os.environ.get(variable, "")
    return int(value) if value.isdigit() else default


def _word(run: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", run)


@dataclass
class Parts:
    """The files of one write. `add` returns the hidden path of the next file, `commit` publishes all files, and `drop` removes
    them."""

    caller: str
    suffix: str
    system: Any
    folder: str
    writer: Writer
    mode: SaveMode
    _others: list[str] = field(default_factory=list)
    _part_names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        who = self.writer
        self._key = (self.folder, self.suffix, who.run, str(who.rank), str(who.reports), str(who.attempt), who.process)
        self._write = -1

    def begin(self) -> bool:
        """Prepares the write. Returns False if nothing is to be written."""
        self._write = self._take_number()
        try:
            begun = self._begun()
        except BaseException:
            self._give_number_back()
            raise
        if not begun:
            self._give_number_back()
        return begun

    def _take_number(self) -> int:
        """Returns the first number that no write of this process uses. Threads may write at the same time, and a failed write
        frees its number."""
        with _numbers_lock:
            taken = _numbers.setdefault(self._key, set())
            number = next(candidate for candidate in itertools.count() if candidate not in taken)
            taken.add(number)
            return number

    def _give_number_back(self) -> None:
        with _numbers_lock:
            _numbers.get(self._key, set()).discard(self._write)

    def _begun(self) -> bool:
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
        self._part_names.append(f"{self._stem()}{len(self._part_names):05}.{self.suffix}")
        return self._hidden(self._part_names[-1])

    def commit(self) -> None:
        for name in self._part_names:
            self.system.move(self._hidden(name), f"{self.folder}/{name}")
        gone = [name for name in self._names() if self._is_stale(name)]
        if self.mode is SaveMode.OVERWRITE:
            gone += [name for name in self._others if name.endswith(f".{self.suffix}")]
        for name in gone:
            with suppress(FileNotFoundError):  # Another rank removed the file.
                self.system.delete_file(f"{self.folder}/{name}")

    def drop(self) -> None:
        self._give_number_back()
        for name in self._part_names:
            with suppress(OSError):
                self.system.delete_file(self._hidden(name))

    def _names(self) -> Iterator[str]:
        infos = self.system.get_file_info(fs.FileSelector(self.folder))
        return iter(sorted(info.base_name for info in infos if info.type == fs.FileType.File))

    def _stem(self) -> str:
        who = self.writer
        process = f"a{who.attempt:03}x{who.process}-" if who.process else ""
        return f"part-{who.run}-w{who.reports:06}n{self._write:03}-r{who.rank:04}-{process}"

    def _hidden(self, name: str) -> str:
        return f"{self.folder}/.{name}.incomplete"

    def _of_this_run(self, name: str) -> bool:
        """Returns True for files that belong to this write or its run's retries: files of other ranks, of other processes of
        this rank, and of an earlier attempt at this point. Other writes of this process, and writes at other report counts, do
        not belong to it."""
        match = _NAME.fullmatch(name)
        if match is None or match["run"] != self.writer.run:
            return False
        if not self._is_in_place_of(int(match["rank"])):
            return True
        if int(match["reports"]) != self.writer.reports:
            return False
        same = int(match["attempt"] or 0) == self.writer.attempt and (match["process"] or "") == self.writer.process
        return not same or int(match["number"]) == self._write

    def _is_stale(self, name: str) -> bool:
        """Returns True for a file of an earlier attempt with the same number of reports."""
        match = _NAME.fullmatch(name) if name.endswith(f".{self.suffix}") else None
        if match is None or (match["run"], int(match["reports"])) != (self.writer.run, self.writer.reports):
            return False
        return int(match["attempt"] or 0) < self.writer.attempt and self._is_in_place_of(int(match["rank"]))

    def _is_in_place_of(self, rank: int) -> bool:
        """Returns True if this rank replaces the rank's files: its own files, and its share of the files of ranks that no
        longer exist."""
        who = self.writer
        return rank == who.rank or (rank >= who.world and rank % who.world == who.rank)


_NAME = re.compile(
    r"part-(?P<run>[A-Za-z0-9]+)-w(?P<reports>\d+)n(?P<number>\d+)-r(?P<rank>\d+)-"
    r"(a(?P<attempt>\d+)x(?P<process>[0-9a-f]+)-)?\d+\.\w+"
)


def opened(caller: str, suffix: str, path: Any, filesystem: Any, mode: SaveMode | str) -> Parts:
    """Returns the files of a new write. ValueError for an unknown mode, or for a mode that ranks outside of a run cannot
    implement, because they do not know each other's files."""
    try:
        save_mode = SaveMode(mode)
    except ValueError:
        modes = ", ".join(repr(member.value) for member in SaveMode)
        raise ValueError(f"{caller}: mode is {mode!r}; it is one of {modes}") from None
    writer = Writer.current()
    if writer.run == _process and writer.world > 1 and save_mode is not SaveMode.APPEND:
        raise ValueError(
            f"{caller}: mode={save_mode.value!r} in rank {writer.rank} of {writer.world} processes that are no run of rtrain's: each would take "
            "the others' files for an earlier write's. Use mode='append' and an empty folder, let one rank write, or train by fit() "
            "(under torchrun too: ScalingConfig(num_workers=0))"
        )
    system, folder = _paths.located(os.fspath(path), filesystem)
    return Parts(caller, suffix, system, folder.rstrip("/") or folder, writer, save_mode)


def _say(text: str) -> None:
    print(f"rtrain: {text}", file=sys.stderr, flush=True)


public_in("rtrain.data", SaveMode)
