"""Exchanges messages between a driver and a worker over one encrypted connection. Both ends have the run's key.

The key is a secret of the run, which only the run's agent receives. Both sides prove that they have it, for this very
stream, before anything is unpickled. A man in the middle has two streams with different bindings and can prove nothing on
either. The stream's encryption then detects every change, omission, repetition and insertion. A message consists of:

    count of parts (4 bytes), their sizes (8 bytes each), parts
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import struct
import threading
from collections.abc import Sequence

from rtrain._remote._cipher import ChannelError, Stream

__all__ = ["KEY_BYTES", "SLOT_CHARACTERS", "Channel", "ChannelError", "Part", "answer", "dial"]

KEY_BYTES = 32
SLOT_CHARACTERS = 16
_PROOF_BYTES = 32
_MOST_PARTS = 1 << 20
_HANDSHAKE_S = 10.0
# A silent peer is detected after 30 s, as between daemons. TCP_USER_TIMEOUT is not set: it would also end the connection to a
# peer that is alive but reads nothing for that time (its interpreter is blocked, or it was suspended).
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}  # macOS has TCP_KEEPALIVE
_MAGIC = b"rtrain-remote-2\n"

Part = bytes | bytearray | memoryview


class Channel:
    """One connection, after the handshake. One thread may send while another receives."""

    def __init__(self, connection: socket.socket, stream: Stream) -> None:
        self._socket = connection
        self._stream = stream
        self._sending = threading.Lock()

    def send(self, parts: Sequence[Part]) -> None:
        views = [memoryview(part).cast("B") for part in parts]
        sizes = struct.pack(f">I{len(views)}Q", len(views), *(view.nbytes for view in views))
        with self._sending:
            self._stream.write(memoryview(sizes))
            for view in views:
                self._stream.write(view)

    def receive(self) -> list[bytearray]:
        """Returns the next message. Raises ChannelError at the end of the connection."""
        many = struct.unpack(">I", _take(self._stream, 4))[0]
        if many > _MOST_PARTS:
            raise ChannelError("the other side does not speak this protocol")
        parts = []
        for size in struct.unpack(f">{many}Q", _take(self._stream, 8 * many)):
            part = bytearray(size)
            self._stream.fill(memoryview(part))
            parts.append(part)
        return parts

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def leave(self) -> None:
        """Closes this process's copy of the connection after a fork. The parent's copy stays open."""
        self._socket.close()

    @property
    def peer(self) -> str:
        try:
            return "{}:{}".format(*self._socket.getpeername()[:2])
        except OSError:
            return "a closed connection"


def dial(address: tuple[str, int], slot: str, key: bytes, timeout_s: float) -> Channel:
    """Connects to the side that listens for `slot`. Raises OSError if no process listens there or the peer does not have the
    key.
    """
    connection = socket.create_connection(address, timeout=timeout_s)
    try:
        connection.settimeout(_HANDSHAKE_S)
        stream = Stream(connection, server_side=False)
        own_nonce = secrets.token_bytes(32)
        stream.write(memoryview(_MAGIC + slot.encode() + own_nonce))
        theirs, proof = _take(stream, 32), _take(stream, _PROOF_BYTES)
        if not hmac.compare_digest(proof, _proof(key, b"listener", stream, own_nonce + theirs)):
            raise ChannelError("the one who listens there does not have this run's key")
        stream.write(memoryview(_proof(key, b"dialler", stream, own_nonce + theirs)))
        return _opened(connection, stream)
    except BaseException:
        connection.close()
        raise


def answer(connection: socket.socket, key_of: dict[str, bytes]) -> tuple[str, Channel]:
    """Accepts a connection: returns the dialled slot and its channel. Raises ChannelError for a peer without the key."""
    try:
        connection.settimeout(_HANDSHAKE_S)
        stream = Stream(connection, server_side=True)
        if _take(stream, len(_MAGIC)) != _MAGIC:
            raise ChannelError("a stranger dialled")
        slot = _take(stream, SLOT_CHARACTERS).decode("ascii", "replace")
        theirs, own_nonce = _take(stream, 32), secrets.token_bytes(32)
        key = key_of.get(slot)
        if key is None:
            raise ChannelError("an unknown slot was dialled")
        stream.write(memoryview(own_nonce + _proof(key, b"listener", stream, theirs + own_nonce)))
        if not hmac.compare_digest(_take(stream, _PROOF_BYTES), _proof(key, b"dialler", stream, theirs + own_nonce)):
            raise ChannelError("the one who dialled does not have the run's key")
        return slot, _opened(connection, stream)
    except BaseException:
        connection.close()
        raise


def _opened(connection: socket.socket, stream: Stream) -> Channel:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Channel(connection, stream)


def _proof(key: bytes, who: bytes, stream: Stream, nonces: bytes) -> bytes:
    return hmac.digest(key, b"proof of " + who + nonces + stream.binding, "sha256")


def _take(stream: Stream, size: int) -> bytes:
    part = bytearray(size)
    stream.fill(memoryview(part))
    return bytes(part)
