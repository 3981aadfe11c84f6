"""Encrypts a stream over one TCP connection: TLS 1.2 with ephemeral Diffie-Hellman and AES-256-GCM, without certificates.

This protects against eavesdroppers only. The caller authenticates the peer by `binding`: both ends of a stream have the same
value, and a man in the middle has a different one with each end.

The TLS object works on memory, under a lock that is not held during network waits: one thread may write while another reads.
"""

from __future__ import annotations

import functools
import socket
import ssl
import tempfile
import threading

_PIECE = 1 << 20
_CIPHERS = "ADH-AES256-GCM-SHA384:@SECLEVEL=0"  # level 0 permits streams without certificates; the list names no weaker cipher
_GROUP = """-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
"""  # ffdhe2048 of RFC 7919


class ChannelError(ConnectionError):
    """The other side is gone, or has proved no knowledge of the key."""


class Stream:
    """Encrypts both directions of one connection from the start."""

    def __init__(self, connection: socket.socket, *, server_side: bool) -> None:
        self._socket = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = _context(server_side).wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self._lock = threading.Lock()
        self._shake_hands()

    @property
    def binding(self) -> bytes:
        """A value that both ends of this stream have, and that differs for every stream."""
        binding_bytes = self._tls.get_channel_binding("tls-unique")
        if not binding_bytes:
            raise ChannelError("the stream has no binding")
        return binding_bytes

    def write(self, view: memoryview) -> None:
        for at in range(0, view.nbytes, _PIECE):
            with self._lock:
                self._tls.write(view[at : at + _PIECE])
                text = self._outgoing.read()
            self._send(text)

    def fill(self, view: memoryview) -> None:
        """Reads until `view` is full."""
        at = 0
        while at < view.nbytes:
            with self._lock:
                try:
                    while at < view.nbytes:
                        got = int(self._tls.read(view.nbytes - at, view[at:]))
                        if not got:
                            raise ChannelError("the other side has gone")
                        at += got
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLError as error:
                    raise ChannelError(f"the connection broke: {error}") from error
            if at < view.nbytes:
                self._feed()

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send(self._outgoing.read())
                self._feed()
                continue
            except ssl.SSLError as error:
                raise ChannelError(f"the other side does not speak this protocol: {error}") from error
            return self._send(self._outgoing.read())

    def _send(self, text: bytes) -> None:
        try:
            self._socket.sendall(text)
        except OSError as error:
            raise ChannelError(f"the connection broke while sending: {error}") from error

    def _feed(self) -> None:
        try:
            text = self._socket.recv(_PIECE)
        except OSError as error:
            raise ChannelError(f"the connection broke: {error}") from error
        if not text:
            raise ChannelError("the other side has gone")
        with self._lock:
            self._incoming.write(text)


@functools.cache
def _context(server_side: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
    try:
        context.set_ciphers(_CIPHERS)
    except ssl.SSLError as error:
        raise ChannelError(
            f"remote calls need {_CIPHERS.partition(':')[0]}, which this Python's {ssl.OPENSSL_VERSION} does not have"
        ) from error
    if server_side:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(_GROUP)
            file.flush()
            context.load_dh_params(file.name)
    return context
