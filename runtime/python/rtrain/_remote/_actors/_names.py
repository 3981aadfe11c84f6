"""Names of the actors of one program: its driver keeps them, and the processes of its remote calls ask for them.

    get_actor(name) in a worker ── own connection ──► its maker ──► ... ──► the driver, which has the names
                                ◄── handle ──────────────────────────────────┘

A process presents the certificate of its own run, as for its calls. So names are known within one program of one user.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import weakref
from dataclasses import dataclass
from typing import Any

from rtrain import _closing
from rtrain._http import HeadError, NotFound, part
from rtrain._lazy import public_in
from rtrain._remote import _call_runs, _values
from rtrain._remote._actors._handle import ActorHandle, arrived
from rtrain._remote._actors._slot import ActorSlot
from rtrain._remote._call_runs import ENDED
from rtrain._remote._channel import Channel, ChannelError, dial
from rtrain._remote._cipher import own_identity
from rtrain._remote._ends import name_of_asker

_DIAL_S = 5.0
Key = tuple[str, str]  # namespace and name


@dataclass
class _Named:
    """An actor with a name. The name keeps no actor alive."""

    given: tuple[dict[str, Any], dict[str, Any], dict[str, int]]  # the arguments of `arrived`, which makes a handle
    own: weakref.ref[ActorSlot] | None  # the slot, if this process has made the actor

    def handle(self) -> ActorHandle | None:
        """Returns a handle; None for an actor that has ended or ends."""
        if self.own is not None:
            slot = self.own()
            return None if slot is None or slot.ending or slot.dead else arrived(*self.given)
        try:
            state = _call_runs.call_runs().head.get(f"/v1/runs/{part(self.given[0]['run'])}")["state"]
        except NotFound:
            return None
        return None if state in ENDED else arrived(*self.given)


_named: dict[Key, _Named] = {}
_lock = threading.Lock()


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """Returns a handle of the actor that was made with `options(name=name)` in this program: by the driver, or in any process of
    its remote calls.

    Raises ValueError if the program has no such actor, or if this process belongs to no program of remote calls.
    """
    handle = find(name, namespace)
    if handle is None:
        raise ValueError(
            f"this program has no actor with the name {name!r} in namespace {namespace or ''!r}: it was not made yet, it has "
            "ended, or another program has made it"
        )
    return handle


def list_named_actors(all_namespaces: bool = False) -> list[Any]:
    """Returns the names of this program's living actors; with `all_namespaces` dicts of `name` and `namespace`."""
    keys: list[Key] = _listed() if _is_driver() else _request({"op": "list"}, None)
    return [{"namespace": space, "name": name} for space, name in keys] if all_namespaces else [name for _, name in keys]


def find(name: str, namespace: str | None) -> ActorHandle | None:
    """Returns a handle of the actor with the name; None if there is none."""
    key = (namespace or "", name)
    if not _is_driver():
        there: ActorHandle | None = _request({"op": "find", "key": key}, None)
        return there
    with _lock:
        entry = _named.get(key)
    handle = None if entry is None else entry.handle()
    if entry is not None and handle is None:
        with _lock:
            if _named.get(key) is entry:
                del _named[key]
    return handle


def add(name: str, namespace: str | None, handle: ActorHandle) -> bool:
    """Gives the actor a name. Returns false if another one has it."""
    key = (namespace or "", name)
    if not _is_driver():
        return bool(_request({"op": "add", "key": key}, handle))
    if find(name, namespace) is not None:
        return False
    slot = handle._slot
    own = weakref.ref(slot) if isinstance(slot, ActorSlot) else None
    given = (slot.description(), handle._methods, handle._limits)
    with _lock:
        _closing.before_shutdown(_forget)
        return _named.setdefault(key, entry := _Named(given, own)) is entry


def _listed() -> list[Key]:
    with _lock:
        keys = sorted(_named)
    return [key for key in keys if find(key[1], key[0]) is not None]


def _is_driver() -> bool:
    """Returns true if this process is no worker of a remote call. A program that a worker has started is none either."""
    return not os.environ.get("RTRAIN_REMOTE_DRIVER") or own_identity() is None


# -- in a process of a remote call -------------------------------------------------------------------------------------------
_channel: Channel | None = None
_asking = threading.Lock()  # one question at a time


def _request(question: dict[str, Any], handle: ActorHandle | None) -> Any:
    """Sends a question to the process that made this one, and returns the answer."""
    global _channel
    parts = _values.pack(handle, "the handle of an actor")
    with _asking:
        try:
            _channel = _channel or _connected()
            _channel.send([pickle.dumps(question), *parts])
            head, *answer = _channel.receive()
        except OSError as error:
            _channel = None
            raise ValueError(f"names of actors are known to the driver, which this process does not reach: {error}") from error
    if text := pickle.loads(head).get("error"):
        raise ValueError(text)
    return _values.unpack(answer)


def _connected() -> Channel:
    identity = own_identity()
    assert identity is not None
    host, _, port = os.environ["RTRAIN_REMOTE_DRIVER"].rpartition(":")
    return dial((host, int(port)), name_of_asker(os.environ["RTRAIN_REMOTE_SLOT"]), identity, _DIAL_S)


# -- in the process that made it ---------------------------------------------------------------------------------------------
def answer(channel: Channel) -> None:
    """Answers the questions of one process until it ends. Handles in the answers keep their actors alive as long."""
    lent: list[Any] = []
    with contextlib.suppress(ChannelError):
        while True:
            head, *parts = channel.receive()
            try:
                value = _answered(pickle.loads(head), parts)
                reply = [pickle.dumps({}), *_values.pack(value, "the handle of an actor", lent=lent)]
            except (ValueError, HeadError) as error:
                reply = [pickle.dumps({"error": str(error)})]
            channel.send(reply)
    channel.close()


def _answered(question: dict[str, Any], parts: list[bytearray]) -> Any:
    if question["op"] == "list":
        return [(entry["namespace"], entry["name"]) for entry in list_named_actors(all_namespaces=True)]
    space, name = question["key"]
    return find(name, space) if question["op"] == "find" else add(name, space, _values.unpack(parts))


def _forget() -> None:
    with _lock:
        _named.clear()


def _in_a_child() -> None:
    global _lock, _asking, _channel
    _lock, _asking = threading.Lock(), threading.Lock()
    _named.clear()
    left, _channel = _channel, None
    if left is not None:
        left.leave()


os.register_at_fork(after_in_child=_in_a_child)
_call_runs.answer_names = answer
public_in("rtrain", get_actor)
public_in("rtrain.util", list_named_actors)
