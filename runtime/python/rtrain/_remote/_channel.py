"""Exchanges messages between a driver and a worker, or among the ranks of a run, over one authenticated connection.

Both sides present the certificate of one run (`_cipher.py`), or prove a key outside of a cluster (`_keyed.py`), before anything
is unpickled. The dialling side first names what it dials, in clear text, so that a driver with many runs knows whose certificate
to present. A message consists of:

    count of parts (4 bytes), their sizes (8 bytes each), parts
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence

from rtrain._remote._cipher import ChannelError, Ended, Identity, Stream, receive_some
from rtrain._remote._keyed import KeyedStream, SharedKey

__all__ = ["SLOT_CHARACTERS", "Channel", "ChannelError", "Part", "Secret", "accept_all", "answer", "dial"]

SLOT_CHARACTERS = 16
_MOST_PARTS = 1 << 20
_JOINED_MOST = 64 << 10  # bytes of a message that is sent as one piece
_HANDSHAKE_S = 10.0
_HANDSHAKES_MOST = 64  # at a time, of one listener
# A silent peer is detected after 30 s, as between daemons. TCP_USER_TIMEOUT is not set: it would also end the connection to a
# peer that is alive but reads nothing for that time (its interpreter is blocked, or it was suspended).
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}  # macOS has TCP_KEEPALIVE
_MAGIC = b"rtrain-remote-3\n"
_OTHER_VERSION = "the other side does not speak this version's protocol; it may have another rtrain"

Secret = Identity | SharedKey
Part = bytes | bytearray | memoryview


class Channel:
    """One connection, after the handshake. One thread may send while another receives."""

    def __init__(self, connection: socket.socket, stream: Stream | KeyedStream) -> None:
        self._socket = connection
        self._stream = stream
        self._sending = threading.Lock()

    def send(self, parts: Sequence[Part]) -> None:
        views = [memoryview(part).cast("B") for part in parts]
        sizes = struct.pack(f">I{len(views)}Q", len(views), *(view.nbytes for view in views))
        with self._sending:
            if sum(view.nbytes for view in views) <= _JOINED_MOST:
                self._stream.write(memoryview(b"".join((sizes, *views))))  # one record and one call of the system
                return
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


def dial(address: tuple[str, int], slot: str, secret: Secret, timeout_s: float) -> Channel:
    """Connects to the side that listens for `slot`. Raises OSError if no process listens there or the peer has another secret."""
    connection = socket.create_connection(address, timeout=timeout_s)
    try:
        deadline = _begin(connection)
        connection.sendall(_MAGIC + slot.encode())
        return _opened(connection, secret.stream(connection, server_side=False, deadline=deadline), deadline)
    except (Ended, BrokenPipeError, ConnectionResetError) as error:
        connection.close()
        raise ChannelError(
            "the other side ended the handshake: its rtrain may be another version, or its call has ended"
        ) from error
    except BaseException:
        connection.close()
        raise


def answer(connection: socket.socket, secret_of: Callable[[str], Secret | None]) -> tuple[str, Channel]:
    """Accepts a connection: returns the dialled slot and its channel. Raises ChannelError for a peer with another secret.

    secret_of: returns the secret of a slot; None for an unknown slot.
    """
    try:
        deadline = _begin(connection)
        if _plain(connection, len(_MAGIC), deadline) != _MAGIC:
            raise ChannelError(_OTHER_VERSION)
        slot = _plain(connection, SLOT_CHARACTERS, deadline).decode("ascii", "replace")
        secret = secret_of(slot)
        if secret is None:
            raise ChannelError("an unknown slot was dialled")
        return slot, _opened(connection, secret.stream(connection, server_side=True, deadline=deadline), deadline)
    except BaseException:
        connection.close()
        raise


def accept_all(listener: socket.socket, secret_of: Callable[[str], Secret | None], use: Callable[[str, Channel], None]) -> None:
    """Accepts connections until `listener` is closed. Calls `use` with each slot and channel, in a thread of its own.

    At most 64 handshakes take place at a time: one more ends the oldest, so that silent strangers keep no worker out.
    """
    shaking: dict[socket.socket, None] = {}  # in order
    lock = threading.Lock()

    def shake(connection: socket.socket) -> None:
        try:
            slot, channel = answer(connection, secret_of)
        except OSError:
            return  # a stranger, or a peer that has closed the connection
        finally:
            with lock:
                shaking.pop(connection, None)
        use(slot, channel)

    while True:
        try:
            connection = listener.accept()[0]
        except OSError:
            return
        with lock:
            if len(shaking) >= _HANDSHAKES_MOST:
                oldest = next(iter(shaking))
                del shaking[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            shaking[connection] = None
        threading.Thread(target=shake, args=(connection,), name="rtrain remote answer", daemon=True).start()


def _begin(connection: socket.socket) -> float:
    """Returns the time at which the handshake must have ended."""
    connection.settimeout(_HANDSHAKE_S)
    return time.monotonic() + _HANDSHAKE_S


def _opened(connection: socket.socket, stream: Stream | KeyedStream, deadline: float) -> Channel:
    stream.write(memoryview(_MAGIC))
    their_magic = bytearray(len(_MAGIC))
    stream.fill(memoryview(their_magic), deadline)  # the other side has accepted this one
    if their_magic != _MAGIC:
        raise ChannelError(_OTHER_VERSION)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Channel(connection, stream)


def _plain(connection: socket.socket, size: int, deadline: float) -> bytes:
    out = b""
    while len(out) < size:
        out += receive_some(connection, size - len(out), deadline)
    return out


def _take(stream: Stream | KeyedStream, size: int) -> bytes:
    part = bytearray(size)
    stream.fill(memoryview(part))
    return bytes(part)
