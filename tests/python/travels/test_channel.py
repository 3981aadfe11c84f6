"""Attacks on the connections of a run: certificates of others, an older TLS, replays, floods, hostile bytes."""

from __future__ import annotations

import contextlib
import random
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator

import channels
import pytest
from rtrain._remote import _channel, _cipher, _keyed
from rtrain._remote._channel import SLOT_CHARACTERS, Channel, ChannelError, Secret, accept_all, answer, dial
from rtrain._remote._cipher import Identity
from rtrain._remote._keyed import KEY_BYTES, SharedKey
from rtrain.data._dealing import _board
from rtrain.data._dealing._lanes import ChunkRows

SLOT = "s" * SLOT_CHARACTERS
PREFACE = b"rtrain-remote-3\n" + SLOT.encode()
RUN, OTHER_RUN = Identity(channels.RUN), Identity(channels.OTHER_RUN)
SECRETS = [pytest.param(RUN, id="certificate"), pytest.param(SharedKey(b"k" * KEY_BYTES), id="key")]


class Listener:
    """A driver's or a relay's side. It returns each message of an accepted peer to that peer."""

    def __init__(self, secret: Secret) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address = self.listener.getsockname()
        self.accepted: list[str] = []
        self.errors: list[str] = []
        self._thread = threading.Thread(target=accept_all, args=(self.listener, {SLOT: secret}.get, self._use))
        self._thread.start()

    def _use(self, slot: str, channel: Channel) -> None:
        self.accepted.append(slot)
        try:
            while True:
                channel.send(channel.receive())
        except ChannelError as error:
            self.errors.append(str(error))
        finally:
            channel.close()

    def serves(self, secret: Secret) -> bool:
        channel = dial(self.address, SLOT, secret, 10)
        channel.send([b"hello"])
        answered = channel.receive() == [b"hello"]
        channel.close()
        return answered

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.fixture
def listening() -> Iterator[Callable[[Secret], Listener]]:
    made: list[Listener] = []

    def listen(secret: Secret) -> Listener:
        made.append(Listener(secret))
        return made[-1]

    yield listen
    for listener in made:
        listener.close()


def attacker(identity: Identity | None, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """Returns the context of a client that accepts every server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = newest
    if identity is not None:
        with _cipher._file(
            _cipher._pem("PRIVATE KEY", identity._key) + _cipher._pem("CERTIFICATE", identity.certificate)
        ) as path:
            context.load_cert_chain(path)
    return context


def attacked(address: tuple[str, int], context: ssl.SSLContext) -> str:
    """Returns what an attacker gets who dials with this context: the error, or the bytes."""
    with socket.create_connection(address, timeout=20) as plain:
        plain.sendall(PREFACE)
        try:
            with context.wrap_socket(plain) as tls:
                tls.sendall(b"rtrain-remote-3\n")
                return repr(tls.recv(100))
        except OSError as error:
            return str(error)


@pytest.mark.parametrize("secret", SECRETS)
def test_both_sides_with_the_secret_exchange_messages_of_many_parts(listening, secret) -> None:
    listener = listening(secret)
    channel = dial(listener.address, SLOT, secret, 10)
    parts = [b"", b"x", bytes(3 << 20), memoryview(b"view")]
    channel.send(parts)
    assert channel.receive() == [bytes(part) for part in parts]
    channel.close()


def test_a_connection_has_tls_1_3_and_no_ticket(listening) -> None:
    channel = dial(listening(RUN).address, SLOT, RUN, 10)
    assert channel._stream._tls.version() == "TLSv1.3"
    assert channel._stream._tls.session is None or not channel._stream._tls.session.has_ticket
    channel.close()


@pytest.mark.parametrize(
    ("context", "refusal"),
    [
        (attacker(OTHER_RUN), "(?i)unknown ca|reset|closed|EOF|pipe"),
        (attacker(None), "(?i)certificate required|reset|closed|EOF|pipe"),
        (attacker(RUN, ssl.TLSVersion.TLSv1_2), "(?i)protocol version|reset|closed|EOF|pipe"),
    ],
    ids=["certificate of another run", "no certificate", "TLS 1.2 with the right certificate"],
)
def test_a_listener_refuses(listening, context, refusal) -> None:
    listener = listening(RUN)
    error = attacked(listener.address, context)
    assert re.search(refusal, error), error
    assert listener.accepted == [] and listener.serves(RUN)


def test_an_attacker_with_the_run_s_certificate_and_key_would_be_accepted(listening) -> None:
    """The tests of refusals use the same client."""
    assert attacked(listening(RUN).address, attacker(RUN)) == repr(b"rtrain-remote-3\n")


def test_a_dialler_refuses_the_certificate_of_another_run(listening) -> None:
    listener = listening(OTHER_RUN)
    with pytest.raises(ChannelError, match="a certificate of another run"):
        dial(listener.address, SLOT, RUN, 10)
    assert listener.accepted == []


def test_a_man_in_the_middle_is_refused_by_both_ends(listening) -> None:
    """He ends TLS on both sides with the certificate of a run of his own."""
    listener, errors = listening(RUN), []
    with socket.create_server(("127.0.0.1", 0)) as middle:

        def between() -> None:
            connection = middle.accept()[0]
            errors.append(attacked(listener.address, attacker(OTHER_RUN)))
            with pytest.raises(ChannelError) as refused:
                answer(connection, {SLOT: OTHER_RUN}.get)
            errors.append(str(refused.value))

        thread = threading.Thread(target=between)
        thread.start()
        with pytest.raises(ChannelError, match="a certificate of another run"):
            dial(middle.getsockname(), SLOT, RUN, 10)
        thread.join(60)
    assert len(errors) == 2 and listener.accepted == []


class Tap:
    """Forwards connections to `address`, and records the bytes of the dialling side. `change` may change a piece of either side."""

    def __init__(self, address: tuple[str, int], change: Callable[[bool, bytes], bytes] = lambda _, text: text) -> None:
        self._to, self._change = address, change
        self.middle = socket.create_server(("127.0.0.1", 0))
        self.dialled = bytearray()
        self.thread = threading.Thread(target=self._forward)
        self.thread.start()

    def _forward(self) -> None:
        with self.middle.accept()[0] as near, socket.create_connection(self._to) as far:
            back = threading.Thread(target=self._pump, args=(far, near, False))
            back.start()
            self._pump(near, far, True)
            back.join()

    def _pump(self, source: socket.socket, target: socket.socket, from_dialler: bool) -> None:
        try:
            while text := source.recv(1 << 16):
                if from_dialler:
                    self.dialled += text
                target.sendall(self._change(from_dialler, text))
        except OSError:
            pass
        for end, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
            with contextlib.suppress(OSError):
                end.shutdown(how)

    def close(self) -> None:
        self.thread.join(60)
        self.middle.close()
        assert not self.thread.is_alive()


def recorded(listener: Listener, secret: Secret) -> bytes:
    """Returns all bytes that a dialler sends who exchanges one message."""
    tap = Tap(listener.address)
    channel = dial(tap.middle.getsockname(), SLOT, secret, 10)
    channel.send([b"a message that is sent once"])
    assert channel.receive() == [b"a message that is sent once"]
    channel.close()
    tap.close()
    return bytes(tap.dialled)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_replayed_connection_is_refused(listening, secret) -> None:
    listener = listening(secret)
    text = recorded(listener, secret)
    accepted = len(listener.accepted)
    with socket.create_connection(listener.address, timeout=20) as replay:
        replay.sendall(text)
        replay.shutdown(socket.SHUT_WR)
        try:
            while replay.recv(1 << 16):
                pass
        except ConnectionError:
            pass
    assert len(listener.accepted) == accepted and listener.serves(secret)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("from_dialler", [True, False])
def test_a_changed_byte_of_a_message_ends_the_connection(listening, secret, from_dialler) -> None:
    changing = threading.Event()

    def change(dialler: bool, text: bytes) -> bytes:
        return text[:-1] + bytes([text[-1] ^ 1]) if changing.is_set() and dialler == from_dialler else text

    listener = listening(secret)
    tap = Tap(listener.address, change)
    channel = dial(tap.middle.getsockname(), SLOT, secret, 10)
    changing.set()
    channel.send([b"a message"])
    with pytest.raises(ChannelError):
        channel.receive()
    channel.close()
    tap.close()


@pytest.mark.parametrize("secret", SECRETS)
def test_no_hostile_bytes_are_accepted_and_the_listener_serves_on(listening, secret) -> None:
    listener = listening(secret)
    text, chance = recorded(listener, secret), random.Random(7)
    accepted = len(listener.accepted)
    for number in range(120):
        hostile = bytearray(text)
        for _ in range(1 + number % 4):
            hostile[chance.randrange(len(hostile))] ^= 1 << chance.randrange(8)
        hostile = hostile[: chance.randrange(1, len(hostile))] if number % 3 else chance.randbytes(1 + number)
        with socket.create_connection(listener.address, timeout=20) as stranger:
            stranger.sendall(hostile)
    assert listener.serves(secret)
    assert len(listener.accepted) == accepted + 1


def test_silent_strangers_keep_no_worker_out(listening) -> None:
    listener = listening(RUN)
    strangers = [socket.create_connection(listener.address, timeout=20) for _ in range(3 * _channel._HANDSHAKES_MOST)]
    begun = time.monotonic()
    assert listener.serves(RUN)
    assert time.monotonic() - begun < _channel._HANDSHAKE_S
    assert strangers[0].recv(1) == b""  # the oldest was ended
    for stranger in strangers:
        stranger.close()


def test_a_peer_that_sends_a_byte_at_a_time_is_ended_after_the_handshake_s_time(monkeypatch) -> None:
    monkeypatch.setattr(_channel, "_HANDSHAKE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as middle:
        stranger = socket.create_connection(middle.getsockname())
        ended = threading.Event()

        def drip() -> None:
            for byte in PREFACE[:-1] * 1000:
                if ended.wait(0.05):
                    return
                try:
                    stranger.sendall(bytes([byte]))
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        begun = time.monotonic()
        with pytest.raises(ChannelError):
            answer(middle.accept()[0], {SLOT: RUN}.get)
        assert time.monotonic() - begun < 30
        ended.set()
        thread.join(60)
        stranger.close()


@pytest.mark.parametrize("reset", [True, False])
def test_another_version_s_listener_is_named_as_a_possible_cause(reset) -> None:
    with socket.create_server(("127.0.0.1", 0)) as middle:

        def listener() -> None:
            with middle.accept()[0] as connection:
                if reset:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        thread = threading.Thread(target=listener)
        thread.start()
        with pytest.raises(ChannelError, match="its rtrain may be another version, or its call has ended"):
            dial(middle.getsockname(), SLOT, RUN, 10)
        thread.join(60)


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "no base64.!", channels.RUN.replace(".", "")])
def test_a_text_that_is_no_channel_is_refused_without_its_content(text) -> None:
    with pytest.raises(ValueError, match="is no channel of a run") as refused:
        Identity(text)
    assert len(text) < 20 or text[:20] not in str(refused.value)


def test_the_key_is_in_no_text_of_an_identity_and_in_no_file(monkeypatch) -> None:
    monkeypatch.setattr(_cipher.tempfile, "NamedTemporaryFile", None)
    identity = Identity(channels.RUN)
    assert identity.client and identity.server
    assert repr(identity) == str(identity) == "Identity(...)" and repr(_keyed.SharedKey(b"k")) == "SharedKey(...)"


def test_systems_without_memory_files_use_a_private_file(monkeypatch) -> None:
    monkeypatch.delattr(_cipher.os, "memfd_create")
    assert Identity(channels.RUN).client


def test_the_relay_of_a_run_s_ranks_sends_no_key_and_refuses_another_run(monkeypatch) -> None:
    monkeypatch.setenv("RTRAIN_CHANNEL", channels.RUN)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    address = _board.Relay().address
    assert address.key == b""
    monkeypatch.setenv("RTRAIN_CHANNEL", channels.OTHER_RUN)
    with pytest.raises(ChannelError, match="a certificate of another run"):
        dial((address.host, address.port), address.slot, address.secret(), 10)
    monkeypatch.delenv("RTRAIN_CHANNEL")
    with pytest.raises(ChannelError, match="no certificate of the run"):
        address.secret()
    monkeypatch.setenv("RTRAIN_CHANNEL", channels.RUN)
    lines = [_board.Line(dial((address.host, address.port), address.slot, address.secret(), 10)) for _ in range(2)]
    lines[0].publish((1, 2), 3, ChunkRows(40, None))
    assert lines[1].take((1, 2), 3, 30.0) == ChunkRows(40, None)


def test_the_relay_outside_of_a_cluster_has_a_key(monkeypatch) -> None:
    monkeypatch.delenv("RTRAIN_CHANNEL", raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    address = _board.Relay().address
    assert len(address.key) == KEY_BYTES
    dial((address.host, address.port), address.slot, address.secret(), 10).close()
