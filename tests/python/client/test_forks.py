"""The allowed actions of a forked child while a thread of its parent, which the child lacks, holds a lock."""

from __future__ import annotations

import os
import pathlib
import select
import signal
import sys
import threading
from collections.abc import Callable

import channels
import pytest
import rtrain
from rtrain import _by_value
from rtrain._remote import _call_runs, _refs
from rtrain._remote._call_runs import Call, CallRuns, Slot
from rtrain._remote._refs import ObjectRef

WITHIN_S = 10.0


def in_a_child(does: Callable[[], bool]) -> int | str:
    """Runs `does` in a forked child. Returns its exit code, which is 0 if `does` returns true; "stuck" after a
    while.
    """
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if does() else 1)
        except BaseException as error:
            print(f"in the child: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(2)
    ended = os.pidfd_open(child)
    try:
        there = select.select([ended], [], [], WITHIN_S)[0]
    finally:
        os.close(ended)
    if there:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "stuck"


@pytest.fixture
def held():
    """Has another thread hold a lock until the test is over."""
    over, threads = threading.Event(), []

    def hold(lock) -> None:
        taken = threading.Event()

        def run() -> None:
            with lock:
                taken.set()
                over.wait()

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        assert taken.wait(WITHIN_S)

    yield hold
    over.set()
    for thread in threads:
        thread.join()


def test_a_child_pickles_while_its_parent_did(held) -> None:
    held(_by_value._lock)

    def pickles() -> bool:
        with _by_value.by_value([os]):
            return True

    assert in_a_child(pickles) == 0


def test_a_child_has_values_of_its_own_while_its_parent_settled_one(held) -> None:
    held(_refs._settled)
    assert in_a_child(lambda: rtrain.get(rtrain.put(3)) == 3) == 0


class Head:
    """Records its requests in a file that parent and child share."""

    def __init__(self, orders: pathlib.Path) -> None:
        self.orders = orders
        self.place = type("Place", (), {"host_port": ("127.0.0.1", 1)})

    def post(self, path: str, body: object = None) -> dict:
        with self.orders.open("a") as out:
            out.write(path + "\n")
        return {"run_id": "r-1", "state": "RUNNING", "channel": channels.RUN}

    def get(self, path: str) -> dict:
        return {"run_id": "r-1", "state": "STARTING"}


def test_a_child_s_end_ends_no_call_of_its_parent(held, tmp_path, monkeypatch) -> None:
    call_runs = CallRuns(Head(tmp_path / "told"))
    monkeypatch.setattr(_call_runs, "_call_runs", call_runs)
    slot = Slot("train()", actor=False, job={}, call_runs=call_runs)
    ref = ObjectRef("train()", _call_runs.checker(slot))
    slot.call(Call("function", "train()", None, (), {}, [ref]))
    call_runs.submit(slot)
    held(slot.changed)
    held(call_runs._lock)
    held(_call_runs._making)

    def ends() -> bool:
        try:
            rtrain.get(ref, timeout=5)
        except Exception as error:
            if f"it belongs to process {os.getppid()}" not in str(error):
                raise
        slot.end()  # the end of an actor's handle calls it
        _call_runs.close()  # the end of the process calls it
        return True

    try:
        assert in_a_child(ends) == 0
        assert (tmp_path / "told").read_text() == "/v1/runs\n"  # no run is stopped
        assert not ref.done()
    finally:
        call_runs._closing = True
        call_runs._listener.close()
