"""The run of a remote call after its worker has ended: the order in which the head and the caller are notified."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import channels
import pytest
from rtrain._http import Conflict, Head, HeadError, NotFound, Unreachable
from rtrain._remote import _call_runs, _values, _worker
from rtrain._remote._actors import _borrowed
from rtrain._remote._actors._borrowed import Borrowed
from rtrain._remote._actors._slot import ActorSlot
from rtrain._remote._api import ActorHandle, kill
from rtrain._remote._call_runs import CallRuns, Slot
from rtrain._remote._calls import Call
from rtrain._remote._channel import ChannelError, answer, dial
from rtrain._remote._cipher import Identity
from rtrain._remote._errors import ActorDiedError, ActorUnavailableError, TaskCancelledError
from rtrain._remote._refs import ObjectRef
from rtrain._settings import Place


class FakeHead:
    """Answers the requests of `CallRuns`, and records whether the caller had the result by then."""

    place = Place("127.0.0.1:9", "", "", "test")

    def __init__(self, run: dict[str, Any], ref: ObjectRef) -> None:
        self.run, self.ref = run, ref
        self.heard_at_stop: list[bool] = []
        self.refusal: HeadError | None = None  # the answer to a stop
        self.says: Callable[[str], None] = lambda _: None  # called before an answer to a GET

    def get(self, path: str) -> dict[str, Any]:
        self.says(path)
        return self.run

    def items(self, path: str) -> list[dict[str, Any]]:
        return [{"state": "LOST", "cause": "node two drains: new kernel"}]

    def post(self, path: str) -> dict[str, Any]:
        assert path == "/v1/runs/r-1/stop"
        self.heard_at_stop.append(self.ref.done())
        if self.refusal is not None:
            raise self.refusal
        return {"state": "STOPPING"}


class Closed:
    """The channel of a worker that has ended."""

    def __init__(self) -> None:
        self.closed = False

    def send(self, parts: object) -> None:
        raise ChannelError("gone")

    def receive(self) -> object:
        raise ChannelError("gone")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def actor() -> tuple[FakeHead, CallRuns, Slot, ObjectRef]:
    ref = ObjectRef("Actor.wait()")
    head = FakeHead({"name": "actor", "run_id": "r-1", "state": "RECOVERING"}, ref)
    call_runs = CallRuns(head)
    slot = ActorSlot("Actor", True, {}, call_runs, run_id="r-1", constructed=True, identity=Identity(channels.RUN))
    slot.sent[1] = Call("method", "Actor.wait()", None, (), {}, [ref])
    yield head, call_runs, slot, ref
    call_runs.close()


def cause(ref: ObjectRef) -> str:
    with pytest.raises(ActorDiedError) as died:
        ref._get(0)
    return str(died.value)


def test_the_run_of_an_object_that_is_gone_is_stopped_before_its_caller_hears_of_it(actor) -> None:
    head, call_runs, slot, ref = actor
    call_runs._look(slot)
    assert head.heard_at_stop == [False]
    assert "node two drains: new kernel; its state is gone with that worker" in cause(ref)


def test_a_worker_that_comes_anew_for_it_is_sent_away(actor) -> None:
    head, call_runs, slot, ref = actor
    anew = Closed()
    slot.connected(anew)
    call_runs._look(slot)
    assert anew.closed and slot.channel is None
    assert head.heard_at_stop == [False]  # once
    assert "new kernel" in cause(ref)


def test_a_stop_that_is_refused_is_said_and_leaves_nobody_waiting(actor, capfd) -> None:
    head, call_runs, slot, ref = actor
    head.refusal = Conflict("conflict", "it is not to be stopped")
    slot.connected(Closed())
    assert "its state is gone" in cause(ref)
    errors = capfd.readouterr().err
    assert "could not be stopped: Actor (run r-1): it is not to be stopped\nnext: rtrain stop r-1" in errors


def test_one_whose_worker_cannot_be_reached_is_stopped_before_its_caller_hears_of_it(actor) -> None:
    head, call_runs, slot, ref = actor
    head.run = {**head.run, "state": "RUNNING", "last_report": {"metrics": {"rtrain_remote_address": "127.0.0.1:1"}}}
    call_runs._look(slot)
    assert head.heard_at_stop == [False]
    assert "neither side reaches the other" in cause(ref)


def handle_of(slot: ActorSlot) -> ActorHandle:
    slot.held()
    return ActorHandle(slot, {}, {})


def test_a_killed_actor_s_run_is_stopped_before_its_caller_hears_of_it(actor) -> None:
    head, call_runs, slot, ref = actor
    head.run["state"] = "STOPPED"
    kill(handle_of(slot))
    assert head.heard_at_stop == [False]
    assert "it was killed" in cause(ref)


def test_kill_tells_when_the_head_could_not_be_asked_and_may_be_called_again(actor) -> None:
    head, call_runs, slot, ref = actor
    head.refusal = Unreachable("unreachable", "away")
    one = handle_of(slot)
    with pytest.raises(Unreachable):
        kill(one)
    assert "it was killed" in cause(ref)
    head.refusal, head.run["state"] = None, "STOPPED"
    kill(one)
    assert len(head.heard_at_stop) == 2


def test_a_driver_that_ends_stops_its_runs_before_anybody_hears_of_it(actor) -> None:
    head, call_runs, slot, ref = actor
    slot.channel = channel = Closed()
    call_runs._slots[slot.name] = slot
    call_runs.close()
    assert head.heard_at_stop == [False] and channel.closed
    with pytest.raises(TaskCancelledError):
        ref._get(0)


def test_what_could_not_be_stopped_is_tried_again_at_the_end_and_named(actor, capfd) -> None:
    head, call_runs, slot, ref = actor
    slots = [slot, Slot("other()", False, {}, call_runs, run_id="r-2")]
    call_runs._slots = {one.name: one for one in slots}
    for one in slots:
        one.died("it was killed")
    call_runs._look(slot)
    assert slot.name in call_runs._slots
    head.refusal = Unreachable("unreachable", "away")
    call_runs.close()
    assert len(head.heard_at_stop) == 1  # after a request without answer, no stop request follows for each other run
    assert "could not be stopped: Actor (run r-1), other() (run r-2): away" in capfd.readouterr().err


def test_a_head_that_will_not_answer_once_ends_no_call(actor) -> None:
    head, call_runs, slot, ref = actor

    def refuses(path: str) -> None:
        raise HeadError("internal", "something is wrong")

    head.says = refuses
    call_runs._look(slot)
    assert not ref.done() and head.heard_at_stop == []
    slot.refused = time.monotonic() - 3600
    call_runs._look(slot)
    assert head.heard_at_stop == [False]
    assert "something is wrong" in cause(ref)


def test_a_call_that_waits_does_not_need_to_be_explained(actor) -> None:
    head, call_runs, slot, ref = actor
    head.run["state"], slot.constructed = "QUEUED", False

    def refuses(path: str) -> None:
        if path.endswith("/explain"):
            raise HeadError("internal", "something is wrong")

    head.says = refuses
    call_runs._look(slot)
    assert not slot.refused and not slot.dead


def test_a_run_that_was_removed_ends_its_calls_at_once(actor) -> None:
    head, call_runs, slot, ref = actor

    def refuses(path: str) -> None:
        raise NotFound("not_found", "there is no run r-1")

    head.says = refuses
    call_runs._look(slot)
    assert "there is no run r-1" in cause(ref)
    assert not slot.needs_stop()


def test_a_worker_whose_slot_went_during_the_handshake_is_sent_away(actor) -> None:
    head, call_runs, slot, ref = actor
    channel = Closed()
    call_runs._answered(slot.name, channel)
    assert channel.closed


def test_the_hub_asks_a_head_that_does_not_answer_again(actor, monkeypatch) -> None:
    head, call_runs, slot, ref = actor
    monkeypatch.setattr(_call_runs._where, "ensure", lambda: None)
    monkeypatch.setattr(Head, "current", lambda: Head(head.place))
    monkeypatch.setattr(_call_runs, "_call_runs", None)
    made = _call_runs.call_runs()
    try:
        assert made.head.patience_s > 0
    finally:
        _call_runs.close()


class Worker:
    """The channel of a worker that is alive and answers nothing. `slow` is the time to send a message."""

    def __init__(self, slow: float = 0.0) -> None:
        self.slow, self.sent = slow, []
        self.closed = threading.Event()

    def send(self, parts: list[bytes]) -> None:
        threading.Event().wait(self.slow)
        self.sent.append(pickle.loads(parts[0]))

    def receive(self) -> object:
        self.closed.wait()
        raise ChannelError("closed")

    def close(self) -> None:
        self.closed.set()


def test_an_actor_that_could_not_be_constructed_is_let_go(actor) -> None:
    head, call_runs, slot, ref = actor
    slot.constructed, worker = False, Worker()
    made = ObjectRef("Actor()")
    slot.call(Call("construct", "Actor()", object, (), {}, [made]))
    construct = slot.calls[-1]
    slot.sent.clear()
    slot.connected(worker)
    slot._raised(construct, {}, _values.pack(("OSError: no disk", None), "it"))
    until = time.monotonic() + 60
    while {"op": "end"} not in worker.sent and time.monotonic() < until:
        threading.Event().wait(0.01)
    assert worker.sent[-1] == {"op": "end"}  # its GPU is free again
    assert not slot.needs_stop()
    assert "no disk" in cause(made)
    worker.close()


def test_a_driver_that_ends_waits_until_its_actors_know_that_they_may(actor, monkeypatch) -> None:
    head, call_runs, slot, ref = actor
    monkeypatch.setattr(_call_runs, "_SENT_WITHIN_S", 60.0, raising=False)
    slot.constructed, worker = False, Worker(slow=0.3)
    slot.sent.clear()
    slot.connected(worker)
    slot.constructed = True
    call_runs._slots[slot.name] = slot
    slot.end()  # the end of its last handle calls it
    call_runs.close()
    assert worker.sent == [{"op": "end"}] and head.heard_at_stop == []
    worker.close()


def test_the_cluster_knows_why_a_call_failed_before_its_driver_does(monkeypatch) -> None:
    causes: list[str] = []
    monkeypatch.setattr(_worker, "tell_cause", lambda cause, shown: causes.append(cause))

    class Driver:
        def send(self, parts: list[Any]) -> None:
            assert "no disk" in causes[0]
            causes.append("answered")

    def fails() -> None:
        raise OSError("no disk")

    head = {"op": "function", "id": 1, "what": "fails()", "returns": 1}
    parts = [bytearray(part) for part in _values.pack((fails, (), {}), "it")]
    _worker._Server(Driver())._answer(head, parts)
    assert causes[-1] == "answered"


def test_a_side_that_fell_silent_is_noticed_after_half_a_minute() -> None:
    run, opened = Identity(channels.RUN), []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=lambda: opened.append(answer(listener.accept()[0], {"s" * 16: run}.get)[1]))
        answering.start()
        opened.append(dial(listener.getsockname(), "s" * 16, run, 60.0))
        answering.join()
    for channel in opened:
        asked = {
            name: channel._socket.getsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_KEEP{name}"))
            for name in ("IDLE", "INTVL", "CNT")
        }
        assert channel._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert asked["IDLE"] + asked["CNT"] * asked["INTVL"] <= 30
        channel.close()
    assert len(opened) == 2


def borrowed_of(head: Any, address: str) -> Borrowed:
    call_runs: Any = type("OpenHub", (), {"head": head, "_closed": False})()
    slot = Borrowed("Actor", True, {}, call_runs, run_id="r-1", identity=Identity(channels.RUN), address=address)
    slot.held()
    return slot


class HeadWithValue:
    """Answers about a run whose worker has published an address."""

    def __init__(self, state: str, value: bytes) -> None:
        self.state, self.value = state, value

    def get(self, path: str) -> dict[str, Any]:
        return {"run_id": "r-1", "name": "actor", "state": self.state, "attempt": 2, "reason": "the reason"}

    def items(self, path: str) -> list[dict[str, Any]]:
        return []

    def content(self, path: str) -> bytes:
        assert path == "/v1/runs/r-1/values/remote-address"
        return self.value


@pytest.mark.parametrize(
    ("value", "address"),
    [
        (b'{"address": "10.0.0.1:7", "attempt": 2}', "10.0.0.1:7"),
        (b'{"address": "10.0.0.1:7", "attempt": 1}', ""),  # the address of the worker before
        (b"[1, 2]", ""),
        (b"no JSON", ""),
    ],
)
def test_the_address_of_the_newest_worker_alone_is_dialled(value: bytes, address: str) -> None:
    assert borrowed_of(HeadWithValue("RUNNING", value), "")._look() == address


def test_calls_of_a_lost_worker_are_unavailable_or_repeated() -> None:
    slot = borrowed_of(HeadWithValue("RECOVERING", b""), "")
    slot.reaching = True  # no thread looks for the worker
    lost, repeated = ObjectRef("lost"), ObjectRef("repeated")
    slot.sent = {
        1: Call("method", "Actor.a()", "a", (), {}, [lost], number=1),
        2: Call("method", "Actor.b()", "b", (), {}, [repeated], number=2, retries=1),
    }
    slot.lost()
    assert [(call.number, call.retries) for call in slot.calls] == [(2, 0)] and not lost.done()
    assert slot._look() == ""
    with pytest.raises(ActorUnavailableError, match="the actor waits for another one; the call may have taken effect"):
        lost._get(0)
    assert not repeated.done()
    slot.call_runs.head.state = "FAILED"
    slot._look()
    assert "run actor is FAILED: the reason" in cause(repeated)


def test_a_worker_that_is_not_reached_for_a_minute_fails_the_calls(monkeypatch) -> None:
    monkeypatch.setattr(_borrowed, "_REFUSED_S", 0.2)
    slot = borrowed_of(HeadWithValue("RUNNING", b'{"address": "127.0.0.1:1", "attempt": 2}'), "127.0.0.1:1")
    ref = ObjectRef("Actor.a()")
    slot.call(Call("method", "Actor.a()", "a", (), {}, [ref]))
    assert ref._wait(time.monotonic() + 60)
    assert "this process does not reach its worker at 127.0.0.1:1" in cause(ref)
