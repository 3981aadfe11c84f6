"""Messages between a driver and a worker over one TCP connection, each authenticated with a key that only both have.

The key is a secret of the run, so it reaches nobody but the run's agent. Both sides prove that they have it before anything is
unpickled; then every message carries a keyed hash over its number, its sizes and its bytes: nothing can be changed, left
out, repeated or put in by others. The bytes themselves are not encrypted.

    header   count of parts and sum of their sizes' list (8 bytes each), hash (32)
    parts    bytes, then hash (32) over all of them
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import socket
import struct
import threading
from collections.abc import Sequence

KEY_BYTES = 32
SLOT_CHARACTERS = 16
_HASH_BYTES = 32
_PIECE = 4 << 20
_MOST_PARTS = 1 << 20
_HANDSHAKE_S = 10.0
_MAGIC = b"rtrain-remote-1\n"

Part = bytes | bytearray | memoryview


class ChannelError(ConnectionError):
    """The other side is gone, or is not who it should be."""


class Channel:
    """One connection, after the handshake. One thread may send while another receives."""

    def __init__(self, connection: socket.socket, send_key: bytes, receive_key: bytes) -> None:
        self._socket = connection
        self._keys = send_key, receive_key
        self._sent = self._received = 0
        self._sending = threading.Lock()

    def send(self, parts: Sequence[Part]) -> None:
        views = [memoryview(part).cast("B") for part in parts]
        sizes = struct.pack(f">I{len(views)}Q", len(views), *(view.nbytes for view in views))
        with self._sending:
            number = struct.pack(">Q", self._sent)
            self._sent += 1
            try:
                self._socket.sendall(sizes + _hash(self._keys[0], b"h" + number, sizes).digest())
                body = _hash(self._keys[0], b"b" + number, b"")
                for view in views:
                    for at in range(0, view.nbytes, _PIECE):
                        piece = view[at : at + _PIECE]
                        body.update(piece)
                        self._socket.sendall(piece)
                self._socket.sendall(body.digest())
            except OSError as error:
                raise ChannelError(f"the connection broke while sending: {error}") from error

    def receive(self) -> list[bytearray]:
        """The next message. ChannelError at the connection's end."""
        number = struct.pack(">Q", self._received)
        self._received += 1
        count = self._exactly(4)
        many = struct.unpack(">I", count)[0]
        if many > _MOST_PARTS:
            raise ChannelError("the other side does not speak this protocol")
        sizes = count + self._exactly(8 * many)
        self._verify(self._exactly(_HASH_BYTES), _hash(self._keys[1], b"h" + number, bytes(sizes)))
        body = _hash(self._keys[1], b"b" + number, b"")
        parts = []
        for size in struct.unpack(f">{many}Q", sizes[4:]):
            part = bytearray(size)
            view = memoryview(part)
            for at in range(0, size, _PIECE):
                piece = view[at : at + _PIECE]
                self._fill(piece)
                body.update(piece)
            parts.append(part)
        self._verify(self._exactly(_HASH_BYTES), body)
        return parts

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    @property
    def peer(self) -> str:
        try:
            return "{}:{}".format(*self._socket.getpeername()[:2])
        except OSError:
            return "a closed connection"

    def _verify(self, said: bytearray, counted: hashlib.blake2b) -> None:
        if not hmac.compare_digest(bytes(said), counted.digest()):
            self.close()
            raise ChannelError("a message was changed on its way; the connection is closed")

    def _exactly(self, size: int) -> bytearray:
        part = bytearray(size)
        self._fill(memoryview(part))
        return part

    def _fill(self, view: memoryview) -> None:
        _fill(self._socket, view)


def dial(address: tuple[str, int], slot: str, key: bytes, timeout_s: float) -> Channel:
    """Connects to the side that listens for `slot`. OSError when nobody is there or he does not have the key."""
    connection = socket.create_connection(address, timeout=timeout_s)
    try:
        connection.settimeout(_HANDSHAKE_S)
        mine = secrets.token_bytes(32)
        connection.sendall(_MAGIC + slot.encode() + mine)
        theirs, proof = _take(connection, 32), _take(connection, _HASH_BYTES)
        if not hmac.compare_digest(proof, _proof(key, b"listener", mine, theirs)):
            raise ChannelError("the one who listens there does not have this run's key")
        connection.sendall(_proof(key, b"dialler", mine, theirs))
        return _opened(connection, key, mine + theirs, b"dialler", b"listener")
    except BaseException:
        connection.close()
        raise


def answer(connection: socket.socket, key_of: dict[str, bytes]) -> tuple[str, Channel]:
    """The listening side: which slot has dialled, and its channel. ChannelError for strangers."""
    try:
        connection.settimeout(_HANDSHAKE_S)
        if _take(connection, len(_MAGIC)) != _MAGIC:
            raise ChannelError("a stranger dialled")
        slot = _take(connection, SLOT_CHARACTERS).decode("ascii", "replace")
        theirs, mine = _take(connection, 32), secrets.token_bytes(32)
        key = key_of.get(slot)
        if key is None:
            raise ChannelError("an unknown slot was dialled")
        connection.sendall(mine + _proof(key, b"listener", theirs, mine))
        if not hmac.compare_digest(_take(connection, _HASH_BYTES), _proof(key, b"dialler", theirs, mine)):
            raise ChannelError("the one who dialled does not have the run's key")
        return slot, _opened(connection, key, theirs + mine, b"listener", b"dialler")
    except BaseException:
        connection.close()
        raise


def _opened(connection: socket.socket, key: bytes, nonces: bytes, me: bytes, other: bytes) -> Channel:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return Channel(connection, _derived(key, me, nonces), _derived(key, other, nonces))


def _derived(key: bytes, who: bytes, nonces: bytes) -> bytes:
    return hmac.digest(key, b"key of " + who + nonces, "sha256")


def _proof(key: bytes, who: bytes, dialler: bytes, listener: bytes) -> bytes:
    return hmac.digest(key, b"proof of " + who + dialler + listener, "sha256")


def _hash(key: bytes, what: bytes, start: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(what + start, key=key, digest_size=_HASH_BYTES)


def _take(connection: socket.socket, size: int) -> bytes:
    part = bytearray(size)
    _fill(connection, memoryview(part))
    return bytes(part)


def _fill(connection: socket.socket, view: memoryview) -> None:
    at = 0
    while at < view.nbytes:
        try:
            got = connection.recv_into(view[at:])
        except OSError as error:
            raise ChannelError(f"the connection broke: {error}") from error
        if got == 0:
            raise ChannelError("the other side has gone")
        at += got
