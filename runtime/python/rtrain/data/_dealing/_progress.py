"""The progress of an iteration, and the states that store it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rtrain.data._dealing._lanes import Dealing, Lane
from rtrain.data._dealing._streams import Streams
from rtrain.data._position import Stage

LANES_VERSION = 3  # version of states of epochs in which only reading finds how many rows a stream has
VERSION = 2
OLD_VERSION = 1  # Its states are lists of stages. An epoch that is resumed from such a state ends by the rule of that version.


@dataclass(frozen=True)
class Local:
    """A local shuffle. A stream gives out windows of `rows` rows one after the other, each in a random order."""

    rows: int
    seed: int


@dataclass(kw_only=True)
class Progress:
    """consumed: rows that the loop received in this iteration. rows: rows of the whole epoch."""

    epoch: int
    rows: int | None
    consumed: int = 0
    ended: bool = False


@dataclass(kw_only=True)
class Given(Progress):
    """The progress of an iteration of streams. begun: rows that were dealt before this iteration."""

    streams: Streams
    world: int
    begun: int = 0
    local: Local | None = None
    batch: int | None = None  # rows of a global batch; None: rows are given out one by one, or in blocks as they are read

    @property
    def given(self) -> int:
        given = self.begun + self.consumed * self.world
        return given if self.streams.dealt is None else min(given, self.streams.dealt)

    def resumed(self) -> Resumed:
        return Resumed(self.rows, self.streams, self.given, self.local, self.batch)


class _Passed(NamedTuple):
    """The rest of an epoch after this rank gave out `own` rows in this iteration, when the streams have dealt `given` rows.
    step: how many dealt rows belong to each further row of this rank; 0: its next rows are one batch."""

    own: int
    given: int
    left: Dealing
    step: int = 0


@dataclass(kw_only=True)
class OfLanes(Progress):
    """The progress of an iteration in which only reading finds how many rows a stream has.

    dealing: the rest of the epoch after the rows that were read. given: rows dealt before this iteration. left_out: rows that
    are dropped at the epoch's end.
    """

    dealing: Dealing
    world: int
    equal: bool
    given: int = 0
    local: Local | None = None
    batch: int | None = None
    left_out: int = 0
    read: deque[_Passed] = field(default_factory=deque)
    lock: threading.Lock = field(default_factory=threading.Lock)  # guards `read`: one thread reads rows, another one takes states

    def __post_init__(self) -> None:
        self.read.append(_Passed(0, self.given, self.dealing.copy()))

    def passed(self, own: int, dealt: int, turns_of: Dealing | None = None) -> None:
        """Records that the next `dealt` rows were read, `own` of them for this rank. turns_of: the rest before these rows, if
        they are given out one by one."""
        if self.equal:
            self.left_out += dealt - own * self.world
        if not own:
            return  # Other ranks may not have read these rows yet. All ranks must have the same state.
        with self.lock:
            last = self.read[-1]
            if turns_of is not None:
                self.read.append(_Passed(last.own, last.given, turns_of, self.world))
            self.read.append(_Passed(last.own + own, last.given + dealt, self.dealing.copy()))
        self.newest()

    def newest(self) -> _Passed:
        """Returns the rest after the rows that the loop received last. Drops older entries."""
        with self.lock:
            while len(self.read) > 1 and self.read[1].own <= self.consumed:
                self.read.popleft()
            return self.read[0]

    def resumed(self) -> Resumed:
        own, given, left, step = self.newest()
        if self.consumed > own and step:
            left = left.copy()
            left.take((self.consumed - own) * step)
            given += (self.consumed - own) * step
        streams = Streams(len(left.lanes), None, self.equal)
        return Resumed(None, streams, given, self.local, self.batch, lanes=tuple(left.lanes), turn=left.turn)


@dataclass(kw_only=True)
class Staged(Progress):
    """The progress of an iteration in which ranks read contiguous parts: resumed from a state of version 1, or among loader
    processes."""

    before: tuple[Stage, ...]
    stage: Stage
    windows: list[int] = field(default_factory=list)  # rows of each shuffled buffer that was filled

    def resumed(self) -> Resumed:
        if self.consumed == 0:
            return Resumed(self.rows, stages=self.before)
        stage = self.stage
        window = 0
        if stage.buffer:
            number = self.consumed // stage.buffer
            window = self.windows[number] if number < len(self.windows) else 0
        now = Stage(stage.world, self.consumed, stage.equal, stage.buffer, stage.seed, window)
        return Resumed(self.rows, stages=(*self.before, now))


@dataclass(frozen=True)
class Resumed:
    """The contents of a state: its epoch and what was given out. streams: None for a state of version 1, which has stages
    instead."""

    rows: int | None
    streams: Streams | None = None
    given: int = 0
    local: Local | None = None
    batch: int | None = None
    stages: tuple[Stage, ...] = ()
    lanes: tuple[Lane, ...] = ()  # the rest of each stream, if only reading finds how many rows it has
    turn: int = 0  # the stream that deals the next row of such an epoch

    @property
    def begins(self) -> bool:
        """Returns True if no row of the epoch was given out."""
        return not self.given and not self.stages

    def written(self) -> dict[str, Any]:
        if self.streams is None:
            return {"version": OLD_VERSION, "rows": self.rows, "stages": [stage.as_dict() for stage in self.stages]}
        lanes = [[lane.at, lane.stop, lane.given, lane.place] for lane in self.lanes]
        left = {"version": LANES_VERSION, "lanes": lanes, "turn": self.turn} if lanes else {"version": VERSION}
        return {
            **left,
            "rows": self.rows,
            "streams": self.streams.count,
            "equal": self.streams.equal,
            "given": self.given,
            "local": None if self.local is None else [self.local.rows, self.local.seed],
            "batch": self.batch,
        }


def read(state: Mapping[str, Any]) -> Resumed:
    """Returns the contents of a state. ValueError for a value that is no state, or has an unknown version."""
    if not isinstance(state, Mapping) or not {"version", "epoch", "seed"} <= state.keys():
        raise ValueError("this is no state of a dataset's share: it is what shard.state_dict() gave")
    if state["version"] == OLD_VERSION and "stages" in state:
        return Resumed(state.get("rows"), stages=tuple(Stage(**stage) for stage in state["stages"]))
    if state["version"] not in (VERSION, LANES_VERSION):
        raise ValueError(
            f"the state is of version {state['version']}, this rtrain reads versions {OLD_VERSION} to {LANES_VERSION}"
        )
    streams = Streams(int(state["streams"]), state["rows"], bool(state["equal"]))
    local = None if state["local"] is None else Local(*state["local"])
    lanes = tuple(Lane(*lane) for lane in state.get("lanes", ()))
    return Resumed(
        state["rows"], streams, int(state["given"]), local, state["batch"], lanes=lanes, turn=int(state.get("turn", 0))
    )
