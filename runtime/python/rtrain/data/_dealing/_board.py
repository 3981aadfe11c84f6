"""Lets the ranks of a run publish how many rows the chunks have that each rank made in an epoch.

A thread in rank 0's process relays the messages of all ranks over its own socket. A rank that does not answer delays the others
for a limited time: then they make the chunks of its streams themselves.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import os
import secrets
import socket
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from rtrain._remote._channel import SLOT_CHARACTERS, Channel, ChannelError, Secret, accept_all, dial
from rtrain._remote._cipher import own_identity
from rtrain._remote._keyed import KEY_BYTES, SharedKey
from rtrain.data._dealing._from_lanes import Published
from rtrain.data._dealing._lanes import ChunkRows

PATIENCE_S = 30.0  # seconds for which a rank waits for another one
_DIAL_S = 10.0
_EPOCHS = 2  # epochs of a dataset whose row counts are kept
_MESSAGES = 200_000  # messages of an epoch that are kept for processes that connect later


class Board(Protocol):
    def epoch(self, key: int) -> Published:
        """Returns the row counts that are published in an epoch. key: a number that follows from everything that determines the
        chunks' rows."""
        ...


class Alone:
    """The publication of a rank that no other rank can reach. The rank makes the chunks of all streams."""

    def epoch(self, key: int) -> Published:
        return _Nothing()


class _Nothing:
    def wait(self, chunk: int, owner: int) -> ChunkRows | None:
        return None

    def publish(self, chunk: int, chunk_rows: ChunkRows) -> None:
        return None


class Beside:
    """The publication among iterators of one process. They do not wait for each other."""

    def __init__(self) -> None:
        self._found: dict[int, dict[int, ChunkRows]] = {}

    def epoch(self, key: int) -> Published:
        for old in list(self._found)[:-_EPOCHS]:
            self._found.pop(old, None)
        return _InProcess(self._found.setdefault(key, {}))


class _InProcess(_Nothing):
    def __init__(self, published: dict[int, ChunkRows]) -> None:
        self._published = published

    def wait(self, chunk: int, owner: int) -> ChunkRows | None:
        return self._published.get(chunk)

    def publish(self, chunk: int, chunk_rows: ChunkRows) -> None:
        self._published[chunk] = chunk_rows


class Address(NamedTuple):
    """The address of rank 0's relay, and the secret that a rank needs to connect. Empty: the run's certificate is the proof."""

    host: str
    port: int
    slot: str
    key: bytes

    def secret(self) -> Secret:
        if self.key:
            return SharedKey(self.key)
        if (identity := own_identity()) is None:
            raise ChannelError("this process has no certificate of the run (RTRAIN_CHANNEL)")
        return identity


@dataclass(frozen=True)
class Together:
    """The publication of one dataset. share: the number that rank 0 assigned to the dataset. A loader process connects by
    itself when it begins an epoch."""

    address: Address
    rank: int
    share: int
    says: str

    def epoch(self, key: int) -> Published:
        line = _line(self.address, self.rank, self.says)
        return _Nothing() if line is None else _OfRanks(line, (self.share, key), self.says)


class _OfRanks:
    def __init__(self, line: Line, epoch: tuple[int, int], says: str) -> None:
        self.line, self.key, self.says = line, epoch, says
        self._away: set[int] = set()  # ranks that no longer respond
        line.begin(epoch)

    def wait(self, chunk: int, owner: int) -> ChunkRows | None:
        chunk_rows = self.line.take(self.key, chunk, 0 if owner in self._away else PATIENCE_S)
        if chunk_rows is not None:
            self._away.discard(owner)
        elif owner not in self._away:
            self._away.add(owner)
            print(
                f"rtrain: rank {owner} does not read its part of {self.says}"
                f"{f', waited {PATIENCE_S:.0f} s for it' if self.line.is_open else ', the connection to rank 0 has ended'}: "
                "this rank finds out by itself how many rows that part has",
                file=sys.stderr,
                flush=True,
            )
        return chunk_rows

    def publish(self, chunk: int, chunk_rows: ChunkRows) -> None:
        self.line.publish(self.key, chunk, chunk_rows)


class Line:
    """This process's connection to the relay. A thread receives the messages of other ranks."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._changed = threading.Condition()
        self._found: dict[tuple[int, int], dict[int, ChunkRows]] = {}
        self.is_open = True
        threading.Thread(target=self._receive, name="rtrain-data-found", daemon=True).start()

    def begin(self, epoch: tuple[int, int]) -> None:
        """Forgets the row counts of earlier epochs of the dataset."""
        with self._changed:
            self._found.setdefault(epoch, {})
            for old in [key for key in self._found if key[0] == epoch[0]][:-_EPOCHS]:
                del self._found[old]

    def take(self, epoch: tuple[int, int], chunk: int, patience_s: float) -> ChunkRows | None:
        deadline = time.monotonic() + patience_s
        with self._changed:
            while (chunk_rows := self._found.get(epoch, {}).pop(chunk, None)) is None:
                left = deadline - time.monotonic()
                if left <= 0 or not self.is_open:
                    return None
                self._changed.wait(left)
            return chunk_rows

    def publish(self, epoch: tuple[int, int], chunk: int, chunk_rows: ChunkRows) -> None:
        if self.is_open:
            with contextlib.suppress(OSError):  # The receiving thread ends too.
                self._channel.send([json.dumps([*epoch, chunk, *chunk_rows]).encode()])

    def _receive(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                share, key, chunk, rows, place = json.loads(bytes(self._channel.receive()[0]))
                with self._changed:
                    self._found.setdefault((share, key), {})[chunk] = ChunkRows(rows, place)
                    self._changed.notify_all()
        with self._changed:
            self.is_open = False
            self._changed.notify_all()


class Relay:
    """Sends the messages of each rank to all others. Processes that connect later receive the earlier messages of the epoch."""

    def __init__(self) -> None:
        host = os.environ.get("MASTER_ADDR") or "127.0.0.1"
        self._listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        slot = secrets.token_hex(SLOT_CHARACTERS // 2)
        key = secrets.token_bytes(KEY_BYTES) if own_identity() is None else b""
        self.address = Address(host, self._listener.getsockname()[1], slot, key)
        self._lock = threading.Lock()
        self._channels: list[Channel] = []
        self._log: dict[tuple[int, int], collections.deque[list[Any]]] = {}  # messages by epoch
        threading.Thread(target=self._accept, name="rtrain-data-relay", daemon=True).start()

    def _accept(self) -> None:
        secret = self.address.secret()
        accept_all(self._listener, {self.address.slot: secret}.get, self._serve)

    def _serve(self, slot: str, channel: Channel) -> None:
        with contextlib.suppress(OSError):
            with self._lock:
                self._channels.append(channel)
                for parts in [parts for log in self._log.values() for parts in log]:
                    channel.send(parts)
            while True:
                self._publish(channel, channel.receive())
        with self._lock:
            self._channels.remove(channel)
        channel.close()

    def _publish(self, sender: Channel, parts: list[Any]) -> None:
        share, key, *_ = json.loads(bytes(parts[0]))
        with self._lock:
            if (share, key) not in self._log:
                for old in [epoch for epoch in self._log if epoch[0] == share][: 1 - _EPOCHS]:
                    del self._log[old]
            self._log.setdefault((share, key), collections.deque(maxlen=_MESSAGES)).append(parts)
            others = [channel for channel in self._channels if channel is not sender]
        for channel in others:
            with contextlib.suppress(OSError):  # That rank has ended.
                channel.send(parts)


_lock = threading.Lock()
_lines: dict[tuple[int, Address, int], Line | None] = {}  # by process and rank, because a forked process has no threads
_relays: dict[int, Relay] = {}  # by process
_shares = itertools.count(1)  # numbers of datasets


def offered() -> tuple[Address, int] | None:
    """Returns the address of this process's relay and a number for one dataset. Returns None if the relay cannot listen."""
    with _lock, contextlib.suppress(OSError):
        if os.getpid() not in _relays:
            _relays[os.getpid()] = Relay()
        return _relays[os.getpid()].address, next(_shares)
    return None


def connected(offer: tuple[Address, int] | None, rank: int, says: str) -> Board | None:
    """Connects to the relay that rank 0's process offers, and returns the publication of its dataset."""
    if offer is None:
        return None
    address, share = offer
    _line(address, rank, says)
    return Together(address, rank, share, says)


def _line(address: Address, rank: int, says: str) -> Line | None:
    """Returns this process's connection; None if the relay cannot be reached."""
    key = os.getpid(), address, rank
    with _lock:
        if key not in _lines:
            try:
                _lines[key] = Line(dial((address.host, address.port), address.slot, address.secret(), _DIAL_S))
            except (OSError, ChannelError) as error:
                _lines[key] = None
                print(
                    f"rtrain: this rank does not reach rank 0 at {address.host}:{address.port} ({error}): it reads all of {says} to find "
                    "out how many rows other ranks have",
                    file=sys.stderr,
                    flush=True,
                )
        return _lines[key]


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # A thread that does not exist in a forked process may have held the lock.


os.register_at_fork(after_in_child=_after_fork)
