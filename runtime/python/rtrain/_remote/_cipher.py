"""Encrypts a stream over one TCP connection: TLS 1.3, where both ends present the certificate of one run and accept no other.

The head makes one certificate and key for each run (RTRAIN_CHANNEL, and the answer to a submission with `channel`). The
processes of the run have the key, and the driver that submitted the run.

The TLS object works on memory, under a lock that is not held during network waits: one thread may write while another reads.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import os
import pathlib
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator

VARIABLE = "RTRAIN_CHANNEL"
_PIECE = 1 << 20


class ChannelError(ConnectionError):
    """The connection has ended, or the peer is not a process of the same run."""


class Ended(ChannelError):
    """The other side has closed the connection."""


class Identity:
    """The certificate and the key of one run's channel."""

    def __init__(self, text: str) -> None:
        """text: base64 of the certificate's DER, a dot, base64 of the key's DER. Raises ValueError for another text."""
        parts = text.split(".")
        try:
            self.certificate, key = (base64.b64decode(part, validate=True) for part in parts)
        except (ValueError, binascii.Error):
            raise ValueError(f"the text is no channel of a run ({VARIABLE}): it has {len(parts)} parts") from None
        self._key = key
        self._text = text

    def text(self) -> str:
        """Returns the text that this identity was made from. It holds the key."""
        return self._text

    def __repr__(self) -> str:
        return "Identity(...)"  # the key stays out of logs and tracebacks

    def stream(self, connection: socket.socket, *, server_side: bool, deadline: float) -> Stream:
        return Stream(connection, self, server_side=server_side, deadline=deadline)

    @functools.cached_property
    def client(self) -> ssl.SSLContext:
        return self._context(ssl.PROTOCOL_TLS_CLIENT)

    @functools.cached_property
    def server(self) -> ssl.SSLContext:
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        context.num_tickets = 0  # no session is resumed
        return context

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.check_hostname = False  # the whole certificate is compared
        context.verify_mode = ssl.CERT_REQUIRED
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=self.certificate)
        with _file(_pem("PRIVATE KEY", self._key) + _pem("CERTIFICATE", self.certificate)) as path:
            context.load_cert_chain(path)
        return context


def own_identity() -> Identity | None:
    """Returns the identity of the run that this process belongs to; None outside of a run and below a head of version 0.1.0."""
    text = os.environ.get(VARIABLE, "")
    return Identity(text) if text else None


class Stream:
    """Encrypts both directions of one connection from the start. Raises ChannelError unless the peer has the same identity."""

    def __init__(self, connection: socket.socket, identity: Identity, *, server_side: bool, deadline: float) -> None:
        self._socket = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = identity.server if server_side else identity.client
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self._lock = threading.Lock()
        self._shake_hands(deadline)
        if self._tls.getpeercert(binary_form=True) != identity.certificate:
            raise ChannelError("the other side has a certificate of another run")

    def write(self, view: memoryview) -> None:
        for at in range(0, view.nbytes, _PIECE):
            with self._lock:
                self._tls.write(view[at : at + _PIECE])
                text = self._outgoing.read()
            self._send(text)

    def fill(self, view: memoryview, deadline: float | None = None) -> None:
        """Reads until `view` is full. deadline: a time of time.monotonic(); after it, ChannelError is raised."""
        at = 0
        while at < view.nbytes:
            with self._lock:
                try:
                    while at < view.nbytes:
                        got = int(self._tls.read(view.nbytes - at, view[at:]))
                        if not got:
                            raise Ended("the other side has gone")
                        at += got
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLError as error:
                    raise ChannelError(_why(error)) from error
            if at < view.nbytes:
                self._feed(deadline)

    def _shake_hands(self, deadline: float) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send(self._outgoing.read())
                self._feed(deadline)
                continue
            except ssl.SSLError as error:
                with contextlib.suppress(ChannelError):
                    self._send(self._outgoing.read())  # the alert
                raise ChannelError(_why(error)) from error
            return self._send(self._outgoing.read())

    def _send(self, text: bytes) -> None:
        try:
            self._socket.sendall(text)
        except OSError as error:
            raise Ended(f"the connection broke while sending: {error}") from error

    def _feed(self, deadline: float | None) -> None:
        text = receive_some(self._socket, _PIECE, deadline)
        with self._lock:
            self._incoming.write(text)


def receive_some(connection: socket.socket, size: int, deadline: float | None) -> bytes:
    """Returns at least one byte. Raises ChannelError at the end of the connection and after the deadline."""
    try:
        if deadline is not None:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
        text = connection.recv(size)
    except TimeoutError as error:
        raise ChannelError("the other side has sent nothing for too long") from error
    except OSError as error:
        raise Ended(f"the connection broke: {error}") from error
    if not text:
        raise Ended("the other side has gone")
    return text


def _why(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError) or "UNKNOWN_CA" in str(error.reason):
        return "the other side has a certificate of another run"
    if error.reason in ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "TLSV13_ALERT_CERTIFICATE_REQUIRED"):
        return "the other side has no certificate of this run"
    return f"the other side does not speak this protocol: {error}"


def _pem(kind: str, der: bytes) -> str:
    return f"-----BEGIN {kind}-----\n{base64.encodebytes(der).decode()}-----END {kind}-----\n"


@contextlib.contextmanager
def _file(text: str) -> Iterator[str]:
    """Makes a file for `load_cert_chain`, which reads no memory: anonymous memory where the system has it, else a private file."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("rtrain-channel", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
            path = f"/proc/self/fd/{descriptor}"
            if pathlib.Path(path).exists():
                yield path
                return
        finally:
            os.close(descriptor)
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # mode 0600
        file.write(text)
        file.flush()
        yield file.name
