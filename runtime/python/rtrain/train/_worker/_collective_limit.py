"""Finds the ranks that have not reached a call that waits for all ranks. Prints them after a while, and names them
in the error of RTRAIN_TRAIN_COLLECTIVE_TIMEOUT_S.

A rank that waits for a while stores a mark at the head. By these marks, other ranks see which ranks have reached the
call.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from rtrain._http import Head, HeadError, NotFound, part
from rtrain.train._values import _names
from rtrain.train._values._errors import BroadcastCollectiveTimeoutError
from rtrain.train._values._facts import Facts

_QUIET_S = 1.0  # seconds; a rank that waits for less time stores no mark
_HEAD_S = 5.0  # seconds for which the error waits for an answer of the head
_RANKS_MOST = 900  # most ranks that store marks; the head stores at most 1,000 values of a run

T = TypeVar("T")


@dataclass
class Coming:
    """A call of one rank that waits for all ranks. `kind`: "collective" or "report". It is the `number`th call of its
    kind in this attempt, counted from 1.
    """

    facts: Facts
    kind: str
    number: int
    name: str  # name for messages: "collective.barrier"

    def leave_word(self) -> None:
        if self.facts.world_size <= _RANKS_MOST:
            with contextlib.suppress(HeadError, OSError):
                _head().put(self._word(self.facts.world_rank), f"{self.facts.attempt} {self.number}".encode())

    def missing(self) -> list[int] | None:
        """Returns the ranks that have not reached the call, since they have stored no mark. Returns None if that is
        unknown.
        """
        if self.facts.world_size > _RANKS_MOST:
            return None
        with contextlib.suppress(HeadError, OSError):
            head = _head()
            return [rank for rank in range(self.facts.world_size) if rank != self.facts.world_rank and not self.came(head, rank)]
        return None

    def came(self, head: Head, rank: int) -> bool:
        try:
            attempt, _, number = head.content(self._word(rank)).decode().partition(" ")
        except NotFound:
            return False
        return int(attempt) == self.facts.attempt and int(number) >= self.number

    def _word(self, rank: int) -> str:
        return f"/v1/runs/{part(self.facts.run_id)}/values/{self.kind}-{rank}"


def within(limit_s: float, call: Callable[[], T], coming: Coming) -> T:
    """Returns the result of `call`. Raises BroadcastCollectiveTimeoutError if ranks have not reached the call within
    the limit; then the rank ends without waiting for the call. Once all have reached it there is no limit, since one
    of them may be copying a checkpoint.
    """
    values: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            values.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="rtrain collective")
    thread.start()
    quiet = min(_QUIET_S, limit_s / 4)
    thread.join(quiet)
    if thread.is_alive():
        coming.leave_word()
        thread.join(limit_s - quiet)
    while thread.is_alive():
        missing = coming.missing()
        if missing or missing is None:
            raise BroadcastCollectiveTimeoutError(
                f"{_subject(missing)} did not come to {_call(coming)} within {limit_s:g} s (RTRAIN_TRAIN_COLLECTIVE_TIMEOUT_S); "
                "every rank must make the same calls of report, get_preemption_info and rtrain.train.collective in the same order"
            )
        thread.join(limit_s)
    if errors:
        raise errors[0]
    return values[0]


class Watch:
    """Prints, on the lowest waiting rank, the ranks that have not reached a collective call for 30 s
    (RTRAIN_TRAIN_COLLECTIVE_WARN_INTERVAL_S; 0: never). Prints again each time the wait has doubled.
    """

    def __init__(self) -> None:
        self._every_s = float(_names.setting("COLLECTIVE_WARN_INTERVAL_S", "30"))
        # The call that is under way and its start time. The pair is replaced as a whole, so that no lock is needed.
        self._waiting: tuple[Coming, float] | None = None
        self._process = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def over(self, coming: Coming) -> Iterator[None]:
        if self._every_s <= 0:
            yield
            return
        if self._process != os.getpid():  # a forked child does not have its parent's threads
            self._process = os.getpid()
            self._ended = threading.Event()
            self._thread = threading.Thread(target=self._look, daemon=True, name="rtrain missing ranks")
            self._thread.start()
            atexit.register(self._end)
        self._waiting = coming, time.monotonic()
        try:
            yield
        finally:
            self._waiting = None

    def _end(self) -> None:
        """Waits until a request to the head has ended. Otherwise the interpreter, at its own end, would free OpenSSL
        while the thread uses it.
        """
        if self._thread and self._process == os.getpid():
            self._ended.set()
            self._thread.join(2 * _HEAD_S)

    def _look(self) -> None:
        pause = min(2.0, self._every_s / 8)
        seen: Coming | None = None
        report_due_s = 0.0
        while not self._ended.wait(pause):
            if (waiting := self._waiting) is None:
                continue
            coming, since = waiting
            waited = time.monotonic() - since
            if coming is not seen and waited > pause:
                seen, report_due_s = coming, self._every_s
                coming.leave_word()
            if coming is seen and waited >= report_due_s:
                report_due_s = 2 * waited
                self._tell(coming, waited)

    def _tell(self, coming: Coming, waited: float) -> None:
        with contextlib.suppress(HeadError, OSError):
            head = _head()
            if any(coming.came(head, rank) for rank in range(coming.facts.world_rank)):
                return  # a rank with a lower number waits too, and prints the message
        missing = coming.missing()
        if (
            missing == []
            or (missing is None and coming.facts.world_rank != 0)
            or self._waiting is None
            or self._waiting[0] is not coming
        ):
            return
        waiting = [rank for rank in range(coming.facts.world_size) if rank not in (missing or [])]
        who = f"{_subject(missing)} {'has' if missing and len(missing) == 1 else 'have'} not come"
        wait = f"; {_subject(waiting)} wait{'s' if len(waiting) == 1 else ''}" if missing else ""
        print(
            f"rtrain: {_call(coming)} was not made by all {coming.facts.world_size} workers: {who} for {waited:.0f} s{wait}",
            file=sys.stderr,
            flush=True,
        )


def _call(coming: Coming) -> str:
    kind = "report" if coming.kind == "report" else "collective call"
    return f"{coming.name} ({kind} {coming.number} of this attempt)"


def _head() -> Head:
    head = Head.current()
    head.patience_s = _HEAD_S
    return head


def _subject(ranks: list[int] | None) -> str:
    if not ranks:
        return "some ranks"
    shown = ", ".join(map(str, ranks[:20])) + (f" and {len(ranks) - 20} more" if len(ranks) > 20 else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"
