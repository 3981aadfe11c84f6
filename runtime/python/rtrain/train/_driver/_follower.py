"""Follows a run from its driver: events, reports and prints of workers, calls of callbacks, and the end. The run
does not need the driver, which may end and be started again.
"""

from __future__ import annotations

import contextlib
import queue
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rtrain._http import Head, HeadError, StreamEvent, part
from rtrain._waiting import why_waits, without_times
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._driver import _raised
from rtrain.train._driver._interrupts import Interrupts
from rtrain.train._driver._prints import RANKS_SHOWN, Printer
from rtrain.train._run_context import TrainRunContext, UserCallback, callback_errors
from rtrain.train._values import _metrics

TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")
_WAITING_PAUSE_S = 1.0
_NUMBER = re.compile(r"\d+")
# A notice is hidden if one of the last 20 s differs from it only in numbers. Notices of missing ranks are repeated
# every 30 s.
_ALIKE_S = 20.0
_EXIT = re.compile(r"^exit code \d+: ")  # this prefix of a cause is removed, since the text behind it is more specific


def automatic_backend(worker: dict[str, Any], nodes: dict[str, dict[str, Any]]) -> str:
    """Returns a text about the backend that the ranks' process group will have if the script chooses none. GPUs of
    `--fake-gpus` have no UUID, or one that begins with FAKE, and PyTorch does not find them. Only a rank can find out
    whether its PyTorch can use a real GPU.
    """
    devices = nodes.get(worker["node"], {}).get("gpu_devices") or []
    uuids = [str(device.get("uuid") or "") for device in devices if device["index"] in worker["gpus"]]
    if all(uuid == "" or uuid.startswith("FAKE-") for uuid in uuids):
        return "gloo"
    return "nccl (gloo if the ranks' PyTorch has no CUDA)"


@dataclass
class Driver:
    """Follows one run until it is terminal. `follow` returns the head's last record of the run. The caller of
    `follow` watches `interrupts`.
    """

    head: Head
    run_id: str
    name: str
    callbacks: list[UserCallback]
    context: TrainRunContext
    prints: bool = True
    backend: str = ""  # backend of the process group that the trainer's config names; empty: none
    say: Callable[[str], None] = lambda text: print(f"rtrain: {text}", file=sys.stderr, flush=True)
    _news: queue.Queue[tuple[str, Any]] = field(default_factory=queue.Queue)
    _ended: threading.Event = field(default_factory=threading.Event)
    _attempts_shown: set[int] = field(default_factory=set)
    _failures_shown: set[int] = field(default_factory=set)
    _untold: deque[dict[str, Any]] = field(default_factory=deque)  # reports that the callbacks were not called for yet
    _explained: str = ""
    _newest_notice_shown: int = 0  # id of the last event shown
    # The time of the last notice, by its text without numbers.
    _notices_alike: dict[str, float] = field(default_factory=dict)
    _run: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        by_hand = f"`rtrain stop {self.name}` ends it"
        self.interrupts = Interrupts(
            say=self.say,
            what=self.name,
            come_back=f"rtrain.train.attach({self.name!r}) comes back, {by_hand}",
            by_hand=lambda: by_hand,
            stop=lambda: threading.Thread(target=self._stop, daemon=True).start(),
        )

    @property
    def route(self) -> str:
        return f"/v1/runs/{part(self.run_id)}"

    def follow(self) -> dict[str, Any]:
        self._run = self.head.get(self.route)
        self._newest_notice_shown = self._before_newest_notice()
        printer = Printer()
        threads = [self._thread("events", "/v1/events", {"run": self.run_id})]
        if self.callbacks:
            threads.append(self._thread("metrics", f"{self.route}/metrics", {"rank": "all"}))
        if self.prints:
            ranks = "all" if int(self._run.get("workers") or 1) <= RANKS_SHOWN else "0"
            threads.append(self._thread("logs", f"{self.route}/logs", {"rank": ranks, "states_ms": printer.states_ms}))
        try:
            self._until_terminal(printer)
            for thread in threads[1:]:
                self._drain(thread, printer)
            self._tell_reports()
            if self.interrupts.count:
                raise KeyboardInterrupt(f"run {self.name} was stopped")
        finally:
            self._ended.set()
            printer.close()
        self._tell_failures()
        return self._run

    def _until_terminal(self, printer: Printer) -> None:
        while self._run["state"] not in TERMINAL:
            self._show_state(printer)
            pause = _WAITING_PAUSE_S if self._run["state"] in ("QUEUED", "RECOVERING") else None
            self._take(printer, pause)
        self._show_state(printer)

    def _take(self, printer: Printer, pause: float | None) -> None:
        """Handles the next message of a thread. If there is none within `pause` seconds, requests the run's record
        again.
        """
        try:
            kind, what = self._news.get(timeout=pause or 5.0)
        except queue.Empty:
            kind, what = "events", None
        if kind == "events":
            self._tell_notice(what)
            while not self._news.empty() and self._news.queue[0][0] == "events":
                self._tell_notice(self._news.get_nowait()[1])
            with contextlib.suppress(HeadError):
                self._run = self.head.get(self.route)
                self._tell_reports()
                self._tell_failures()
        else:
            self._handle_news(kind, what, printer)

    def _drain(self, thread: threading.Thread, printer: Printer) -> None:
        """Shows the output from before the end of the run, before `fit` returns."""
        while thread.is_alive() or not self._news.empty():
            try:
                kind, what = self._news.get(timeout=0.05)
            except queue.Empty:
                continue
            if kind == "events":
                self._tell_notice(what)
            else:
                self._handle_news(kind, what, printer)

    def _handle_news(self, kind: str, what: Any, printer: Printer) -> None:
        if kind == "states":
            printer.state(int(what["rank"]), str(what["state"]), str(what["stream"]))
        # the first piece of a long line; the program has overwritten the line, so it is not shown
        elif kind == "logs" and what.get("goes_on") and not what["line"]:
            if what.get("state"):
                printer.state(int(what["rank"]), str(what["state"]), str(what["stream"]))
        elif kind == "logs":
            printer.line(int(what["rank"]), str(what.get("state") or what["line"]), str(what["stream"]))
        elif kind == "metrics":
            self._untold.append(what)
            # If more reports wait, the event about the first one's commit causes the next call.
            if len(self._untold) == 1:
                self._tell_reports()
        elif kind == "fault":
            raise what

    # -- threads ------------------------------------------------------------------------------------------------------
    def _thread(self, kind: str, path: str, query: dict[str, Any]) -> threading.Thread:
        thread = threading.Thread(target=self._listen, args=(kind, path, query), daemon=True, name=f"rtrain-{kind}")
        thread.start()
        return thread

    def _listen(self, kind: str, path: str, query: dict[str, Any]) -> None:
        try:
            for event in self.head.follow(path, query, until=self._ended.is_set, away=self._away):
                if event.name == "end":
                    return
                self._news.put(
                    ("states" if event.name == "state" else kind, event.data if isinstance(event, StreamEvent) else None)
                )
        except HeadError as error:
            if not self._ended.is_set():
                self._news.put(("fault", error))

    def _away(self, error: HeadError | None) -> None:
        if threading.current_thread().name == "rtrain-events":
            self.say("the head is back" if error is None else f"{error.message}; the run goes on, and so will its lines")

    # -- output ------------------------------------------------------------------------------------------------
    def _show_state(self, printer: Printer) -> None:
        if self._run["state"] == "QUEUED":
            self._explain()
        number = int(self._run.get("attempt") or 0)
        if number and number not in self._attempts_shown:
            self._show_attempt(number, printer)

    def _explain(self) -> None:
        with contextlib.suppress(HeadError):
            line = why_waits(self.head.get(f"{self.route}/explain"))
            if without_times(line) != without_times(self._explained):
                self._explained = line
                self.say(line)

    def _show_attempt(self, number: int, printer: Printer) -> None:
        attempt = next((candidate for candidate in self._attempts() if candidate["number"] == number), None)
        if attempt is None or (any(not worker["pid"] for worker in attempt["workers"]) and self._run["state"] not in TERMINAL):
            return
        self._attempts_shown.add(number)
        nodes: dict[str, dict[str, Any]] = {}
        with contextlib.suppress(HeadError):
            nodes = {node["node"]: node for node in self.head.items("/v1/nodes")}
        addresses = {name: node["address"] for name, node in nodes.items()}
        count = len(attempt["workers"])
        self.say(f"attempt {number} of {self.name}: {count} worker{'s' if count != 1 else ''}")
        for worker in attempt["workers"]:
            printer.nodes[int(worker["rank"])] = worker["node"]
            device = "GPU " + ",".join(map(str, worker["gpus"])) if worker["gpus"] else "CPU"
            self.say(
                f"  world rank {worker['rank']}, local rank {worker['local_rank']}, node rank {worker['node_rank']}: "
                f"{worker['node']} ({addresses.get(worker['node'], '?')}), pid {worker['pid']}, {device}"
            )
        backend = self.backend or (self._run.get("job") or {}).get("backend", {}).get("name", "auto")
        if backend == "auto":
            backend = automatic_backend(attempt["workers"][0], nodes)
        self.say(f"  backend {backend}, master {addresses.get(attempt['workers'][0]['node'], '?')} (rank 0)")

    def _before_newest_notice(self) -> int:
        """Returns the number of the event before the newest notice, so that a driver that joins a running run shows
        this notice and later ones.
        """
        if self._run["state"] in TERMINAL:
            return sys.maxsize  # notices of an ended run are not shown; `rtrain events` has them
        notice_ids = []
        if self._run.get("attempt"):
            with contextlib.suppress(HeadError):
                events = self.head.items("/v1/events", {"run": self.run_id, "limit": 1000})
                notice_ids = [int(event["id"]) for event in events if event["kind"] == "Notice"]
        return notice_ids[-1] - 1 if notice_ids else 0

    def _tell_notice(self, event: Any) -> None:
        """Shows an agent's notice about the run, such as ranks that have not reported, or a checkpoint that was not
        written.
        """
        if isinstance(event, dict) and event.get("kind") == "Notice" and int(event["id"]) > self._newest_notice_shown:
            self._newest_notice_shown = int(event["id"])
            text, now = str(event["text"]), time.monotonic()
            shape = _NUMBER.sub("", text)
            if now - self._notices_alike.get(shape, -_ALIKE_S) >= _ALIKE_S:
                self.say(text)
            self._notices_alike[shape] = now

    def _attempts(self) -> list[dict[str, Any]]:
        attempts: list[dict[str, Any]] = self.head.items(f"{self.route}/attempts")
        return attempts

    # -- callbacks ----------------------------------------------------------------------------------------------------
    def tell_begin(self) -> None:
        with self._ended_by_callbacks():
            for callback in self.callbacks:
                callback.before_run(self.context)

    def _tell_reports(self) -> None:
        """Calls the callbacks for the reports, in order. A report with a checkpoint waits until the checkpoint is
        committed, or is certain not to be.
        """
        committed: set[str] | None = None
        while self._untold:
            directory = self._untold[0].get("checkpoint")
            if directory and committed is None:
                committed = self._committed()
            there = directory in (committed or ())
            if directory and not there and not self._given_up(committed or set()):
                return
            self._tell_report(self._untold.popleft(), directory if there else None)

    def _committed(self) -> set[str]:
        with contextlib.suppress(HeadError):
            return {str(checkpoint["directory"]) for checkpoint in self.head.items(f"{self.route}/checkpoints")}
        return set()

    def _given_up(self, committed: set[str]) -> bool:
        """Returns whether the checkpoint of the first waiting report will never be committed: its attempt has ended, or
        a later checkpoint is committed.
        """
        first, *later = self._untold
        over = self._run["state"] in TERMINAL or int(first["attempt"]) < int(self._run.get("attempt") or 0)
        return over or any(row.get("checkpoint") in committed for row in later)

    def _tell_report(self, row: dict[str, Any], directory: str | None) -> None:
        metrics = per_rank(row)
        checkpoint = None
        if directory:
            checkpoint = Checkpoint._kept(f"{self.context.run_path}/{directory}", metrics=metrics[0], name=directory)
        with self._ended_by_callbacks():
            for callback in self.callbacks:
                callback.after_report(self.context, metrics, checkpoint)

    @contextlib.contextmanager
    def _ended_by_callbacks(self) -> Iterator[None]:
        """Ends the run if a callback raises an exception."""
        try:
            with callback_errors():
                yield
        except Exception:
            self._stop()
            raise

    def _tell_failures(self) -> None:
        if not self.callbacks:
            return
        for attempt in self._attempts():
            failures = worker_failures(attempt)
            if attempt["number"] in self._failures_shown or not failures or attempt["state"] not in (*TERMINAL, "LOST"):
                continue
            self._failures_shown.add(attempt["number"])
            exceptions = _raised.exceptions(self.head, self._run, int(attempt["number"]), failures)
            with self._ended_by_callbacks():
                for callback in self.callbacks:
                    callback.after_exception(self.context, exceptions)

    def _stop(self) -> None:
        try:
            self.head.post(f"{self.route}/stop")
            self.interrupts.answered.set()
        except HeadError as error:
            self.say(f"{self.name} could not be stopped: {error}")


def per_rank(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the metrics of each rank in one report, in the order of ranks. If the head stores only rank 0's, returns
    those.
    """
    ranks = row.get("metrics_by_rank")
    decoded: Any
    if isinstance(ranks, dict) and ranks:
        decoded = [_metrics.decode(ranks[rank]) for rank in sorted(ranks, key=int)]
    else:
        decoded = [_metrics.decode(row.get("metrics") or {})]
    return [metrics if isinstance(metrics, dict) else {} for metrics in decoded]


def worker_failures(attempt: dict[str, Any]) -> dict[int, str]:
    """Returns the cause of each worker that failed by itself; key: the world rank."""
    failures = {}
    for worker in attempt["workers"]:
        cause = str(worker.get("cause") or "")
        failed = worker["signal"] is not None or worker["exit_code"] not in (None, 0)
        if cause and failed and not worker["stopped_with_attempt"]:
            failures[int(worker["rank"])] = _EXIT.sub("", cause)
    first = attempt.get("first_failure")
    if first and int(first["rank"]) not in failures:
        failures[int(first["rank"])] = _EXIT.sub("", str(first["cause"]))
    return failures
