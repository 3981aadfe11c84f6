"""Authenticates a stream between processes outside of a cluster, where no head makes a certificate: the ranks of a program under
torchrun, and the processes of a loader. It does not encrypt, as the ranks' collectives beside it do not.

Both ends have a key. Each frame has an HMAC-SHA256 by a key of this connection and direction, over its number and its bytes. So
an end without the key, a replay, a change, an omission and a reordering are all detected.

    nonce (32 bytes), then frames: size (4 bytes), bytes, HMAC (32 bytes)
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import threading

from rtrain._remote._cipher import ChannelError, Ended, receive_some

KEY_BYTES = 32
_NONCE_BYTES = 32
_MAC_BYTES = 32
_FRAME_MOST = 1 << 20


class SharedKey:
    """A secret that both ends got over another connection."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "SharedKey(...)"

    def stream(self, connection: socket.socket, *, server_side: bool, deadline: float) -> KeyedStream:
        return KeyedStream(connection, self._key, server_side=server_side, deadline=deadline)


class KeyedStream:
    """Authenticates both directions of one connection."""

    def __init__(self, connection: socket.socket, key: bytes, *, server_side: bool, deadline: float) -> None:
        self._socket = connection
        own = secrets.token_bytes(_NONCE_BYTES)
        self._send(own)
        theirs = bytes(self._exactly(_NONCE_BYTES, deadline))
        nonces = theirs + own if server_side else own + theirs
        keys = [hmac.digest(key, direction + nonces, "sha256") for direction in (b"to the listener", b"to the dialler")]
        self._receiving_key, self._sending_key = keys if server_side else reversed(keys)
        self._sent = self._received = 0
        self._rest = memoryview(b"")
        self._lock = threading.Lock()

    def write(self, view: memoryview) -> None:
        for at in range(0, view.nbytes, _FRAME_MOST):
            content = bytes(view[at : at + _FRAME_MOST])
            with self._lock:
                mac = _mac(self._sending_key, self._sent, content)
                self._sent += 1
                self._send(struct.pack(">I", len(content)) + content + mac)

    def fill(self, view: memoryview, deadline: float | None = None) -> None:
        """Reads until `view` is full. deadline: a time of time.monotonic(); after it, ChannelError is raised."""
        at = 0
        while at < view.nbytes:
            if not self._rest.nbytes:
                self._rest = memoryview(self._frame(deadline))
            taken = self._rest[: view.nbytes - at]
            view[at : at + taken.nbytes] = taken
            self._rest = self._rest[taken.nbytes :]
            at += taken.nbytes

    def _frame(self, deadline: float | None) -> bytearray:
        size = struct.unpack(">I", self._exactly(4, deadline))[0]
        if not 0 < size <= _FRAME_MOST:
            raise ChannelError("the other side does not speak this protocol")
        content = self._exactly(size, deadline)
        if not hmac.compare_digest(self._exactly(_MAC_BYTES, deadline), _mac(self._receiving_key, self._received, content)):
            raise ChannelError("the other side does not have this key")
        self._received += 1
        return content

    def _exactly(self, size: int, deadline: float | None) -> bytearray:
        out = bytearray()
        while len(out) < size:
            out += receive_some(self._socket, size - len(out), deadline)
        return out

    def _send(self, content: bytes) -> None:
        try:
            self._socket.sendall(content)
        except OSError as error:
            raise Ended(f"the connection broke while sending: {error}") from error


def _mac(key: bytes, number: int, content: bytes | bytearray) -> bytes:
    return hmac.digest(key, struct.pack(">Q", number) + content, "sha256")
