"""What becomes of a remote call's run when its worker is gone: in which order the head and the caller hear of it."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "runtime" / "python"))

from rtrain._http import Conflict
from rtrain._remote._channel import ChannelError
from rtrain._remote._errors import ActorDiedError
from rtrain._remote._hub import Call, Hub, Slot
from rtrain._remote._refs import ObjectRef
from rtrain._settings import Place


class FakeHead:
    """Answers what a hub asks, and notes whether the caller had heard by then."""

    place = Place("127.0.0.1:9", "", "", "test")

    def __init__(self, run: dict[str, Any], ref: ObjectRef) -> None:
        self.run, self.ref = run, ref
        self.heard_at_stop: list[bool] = []
        self.refuses = False

    def get(self, path: str) -> dict[str, Any]:
        return self.run

    def items(self, path: str) -> list[dict[str, Any]]:
        return [{"state": "LOST", "cause": "node two drains: new kernel"}]

    def post(self, path: str) -> dict[str, Any]:
        assert path == "/v1/runs/r-1/stop"
        self.heard_at_stop.append(self.ref.done())
        if self.refuses:
            raise Conflict("conflict", "it is not to be stopped")
        return {"state": "STOPPING"}


class Closed:
    """A channel of a worker that came anew."""

    def __init__(self) -> None:
        self.closed = False

    def send(self, parts: object) -> None:
        raise ChannelError("gone")

    def receive(self) -> object:
        raise ChannelError("gone")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def actor() -> tuple[FakeHead, Hub, Slot, ObjectRef]:
    ref = ObjectRef("Actor.wait()")
    head = FakeHead({"name": "actor", "run_id": "r-1", "state": "RECOVERING"}, ref)
    hub = Hub(head)
    slot = Slot("Actor", True, {}, hub, run_id="r-1", constructed=True)
    slot.sent[1] = Call("method", "Actor.wait()", None, (), {}, [ref])
    yield head, hub, slot, ref
    hub.close()


def cause(ref: ObjectRef) -> str:
    with pytest.raises(ActorDiedError) as died:
        ref._get(0)
    return str(died.value)


def test_the_run_of_an_object_that_is_gone_is_stopped_before_its_caller_hears_of_it(actor) -> None:
    head, hub, slot, ref = actor
    hub._look(slot)
    assert head.heard_at_stop == [False]
    assert "node two drains: new kernel; its state is gone with that worker" in cause(ref)


def test_a_worker_that_comes_anew_for_it_is_sent_away(actor) -> None:
    head, hub, slot, ref = actor
    anew = Closed()
    slot.connected(anew)
    hub._look(slot)
    assert anew.closed and slot.channel is None
    assert head.heard_at_stop == [False]  # once
    assert "new kernel" in cause(ref)


def test_a_stop_that_is_refused_leaves_nobody_waiting(actor) -> None:
    head, hub, slot, ref = actor
    head.refuses = True
    with pytest.raises(Conflict):
        slot.connected(Closed())
    assert "its state is gone" in cause(ref)


def test_one_whose_worker_cannot_be_reached_is_stopped_before_its_caller_hears_of_it(actor) -> None:
    head, hub, slot, ref = actor
    head.run = {**head.run, "state": "RUNNING", "last_report": {"metrics": {"rtrain_remote_address": "127.0.0.1:1"}}}
    hub._look(slot)
    assert head.heard_at_stop == [False]
    assert "neither side reaches the other" in cause(ref)
