"""A pool against a head that is played: runs that yield while they are idle, and the calls of runs that ended."""

from __future__ import annotations

import pathlib
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "runtime" / "python"))

from rtrain._http import Conflict, HeadError, NotFound
from rtrain._remote import _refs
from rtrain._remote._channel import ChannelError
from rtrain._remote._errors import WorkerCrashedError
from rtrain._remote._pools._call import Code, PoolCall, Retries
from rtrain._remote._pools._plan import Limits
from rtrain._remote._pools._pool import Pool
from rtrain._remote._refs import ObjectRef


class Head:
    """Records requests, and answers with `refusal` if there is one."""

    def __init__(self) -> None:
        self.yields: list[bool] = []
        self.refusal: HeadError | None = None

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert path.startswith("/v1/runs/r-") and path.endswith("/yields")
        self.yields.append(body["yields"])
        if self.refusal is not None:
            raise self.refusal
        return {}

    def items(self, path: str) -> list[dict[str, Any]]:
        return []


class FakeServer:
    """Accepts submissions. `knows_yields`: whether it is a head that has the flag."""

    def __init__(self, *, knows_yields: bool = True) -> None:
        self.head, self.slots, self.knows_yields, self._closed = Head(), [], knows_yields, False

    def submit(self, slot: Any) -> None:
        assert slot.submission_fields() == {"yields": False}
        slot.run_id = f"r-{len(self.slots) + 1}"
        slot.seen({"state": "QUEUED", **({"yields": False} if self.knows_yields else {})})
        self.slots.append(slot)

    def why_ended(self, slot: Any) -> str:
        return "its worker was ended"

    def let_go(self, slot: Any) -> None:
        slot.stopping = True

    def wake(self) -> None:
        pass


class Registry:
    """Performs requests at once."""

    def soon(self, does: Callable[[], None]) -> None:
        does()

    def wake_at(self, when: float) -> None:
        pass

    def may_lend(self, pool: Pool) -> bool:
        return False

    def blocked_since(self) -> float | None:
        return None


class Channel:
    """A worker that answers nothing."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.arrived = _refs.threading.Semaphore(0)
        self.ended = _refs.threading.Event()

    def send(self, parts: list[bytes]) -> None:
        self.sent.append(pickle.loads(parts[0]))
        self.arrived.release()

    def receive(self) -> Any:
        self.ended.wait()
        raise ChannelError("ended")

    def close(self) -> None:
        self.ended.set()


@pytest.fixture
def made():
    channels: list[Channel] = []

    def make(*, knows_yields: bool = True, retries: int = 3) -> tuple[FakeServer, Pool, ObjectRef, Channel]:
        server = FakeServer(knows_yields=knows_yields)
        pool = Pool(Registry(), server, {"env": {}}, None, Limits(yield_s=0.0, yields_apart_s=0.0))
        ref = ObjectRef("f()")
        pool.submit(call(ref, retries))
        channels.append(Channel())
        server.slots[0].connected(channels[-1])
        assert channels[-1].arrived.acquire(timeout=10)
        return server, pool, ref, channels[-1]

    yield make
    for channel in channels:
        channel.close()


def call(ref: ObjectRef, retries: int = 3) -> PoolCall:
    return PoolCall("f()", Code(len), ((),), {}, [ref], Retries(retries))


def answer(pool: Pool, server: FakeServer, channel: Channel) -> None:
    number = channel.sent[0]["calls"][0][0]
    pool.worker_answered(server.slots[0], {"id": number, "ok": True, "counts": [1], "s": 0.001}, [bytearray(pickle.dumps(0))])


def test_an_idle_worker_s_run_yields_and_is_woken_before_its_next_call(made) -> None:
    server, pool, ref, channel = made()
    answer(pool, server, channel)
    assert ref.done() and server.head.yields == [True]
    pool.submit(call(ObjectRef("f()")))
    assert server.head.yields == [True, False]
    assert channel.arrived.acquire(timeout=10) and len(channel.sent) == 2


@pytest.mark.parametrize("refusal", [None, NotFound("not_found", "no such route")])
def test_a_head_without_the_flag_is_asked_once_at_most(made, refusal: HeadError | None) -> None:
    server, pool, _, channel = made(knows_yields=refusal is not None)
    server.head.refusal = refusal
    answer(pool, server, channel)
    for _ in range(3):
        pool.tick(0.0)
    assert len(server.head.yields) == (0 if refusal is None else 1)
    pool.submit(call(ObjectRef("f()")))
    assert channel.arrived.acquire(timeout=10)


def test_a_call_for_a_run_that_has_yielded_goes_to_another_worker(made) -> None:
    server, pool, _, channel = made()
    answer(pool, server, channel)
    server.head.refusal = Conflict("conflict", "the run ends already")
    later = ObjectRef("f()")
    pool.submit(call(later))
    assert len(server.slots) == 2 and not later.done()
    server.slots[0].seen({"state": "STOPPED", "reason_kind": "yielded_to", "yields": True})
    server.slots[0].died("it yielded")
    assert not later.done()


@pytest.mark.parametrize(
    ("state", "kind", "is_repeated"),
    [
        ("STOPPED", "yielded_to", True),
        ("STOPPED", "preempted_by", True),
        ("STOPPED", "stopped_by", False),
        ("FAILED", "failures_spent", False),
    ],
)
def test_which_end_of_a_worker_fails_a_call_without_retries(made, capfd, state: str, kind: str, is_repeated: bool) -> None:
    server, pool, ref, channel = made(retries=0)
    server.slots[0].channel = None
    server.slots[0].seen({"state": state, "reason_kind": kind, "yields": False})
    server.slots[0].died("the run has ended")
    assert ref.done() is not is_repeated and len(server.slots) == (2 if is_repeated else 1)
    if not is_repeated:
        with pytest.raises(WorkerCrashedError, match=r"f\(\): the run has ended"):
            ref._get(0)
