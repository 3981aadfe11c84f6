"""CVE class: pickle from the network. Bytes that a stranger sends to a socket of the package are never unpickled."""

import os
import pathlib
import pickle
import re
import secrets
import socket
import ssl
import struct
import threading
import time

import channels
import pytest
import rtrain
from rtrain._remote._channel import SLOT_CHARACTERS, ChannelError, answer, dial
from rtrain._remote._cipher import Identity
from rtrain._remote._keyed import KEY_BYTES, KeyedStream, SharedKey
from rtrain.train._archive._package import Payload

SLOT = "s" * SLOT_CHARACTERS
PREFACE = b"rtrain-remote-3\n" + SLOT.encode()
RUN, OTHER_RUN = Identity(channels.RUN), Identity(channels.OTHER_RUN)
PACKAGE = pathlib.Path(rtrain.__file__).parent


class Harm:
    """An object that makes a file when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return (os.mkdir, (self.file,))


@pytest.fixture
def harm(tmp_path):
    """Returns the bytes of a Harm and the file that unpickling would make."""
    place = tmp_path / "unpickled"
    content = pickle.dumps(Harm(str(place)))
    pickle.loads(content)
    assert place.exists()  # proves that the check works
    place.rmdir()
    return content, place


def message(content):
    return struct.pack(">IQ", 1, len(content)) + content


class Listener:
    """The listening side, as in a driver's `CallRuns` and a worker: it receives one message of each authenticated peer."""

    def __init__(self, secret=RUN):
        self.secret = secret
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.error, self.received = None, None
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self):
        try:
            self.received = answer(self.listener.accept()[0], {SLOT: self.secret}.get)[1].receive()
        except ChannelError as error:
            self.error = error

    def ended(self):
        self.thread.join(60)
        self.listener.close()
        assert not self.thread.is_alive()
        return self.error


def raw(listener, content):
    with socket.create_connection(listener.address) as connection:
        connection.sendall(message(content))


def behind_the_preface(listener, content):
    with socket.create_connection(listener.address) as connection:
        connection.sendall(PREFACE + message(content))


def with_another_run_s_certificate(listener, content):
    with pytest.raises(ChannelError, match="a certificate of another run"):
        dial(listener.address, SLOT, OTHER_RUN, 10).send([content])


def without_a_check_of_the_listener(listener, content):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(listener.address) as connection:
        connection.sendall(PREFACE)
        with pytest.raises(OSError), context.wrap_socket(connection) as tls:
            tls.sendall(b"rtrain-remote-3\n" + message(content))
            tls.recv(1)
            raise ConnectionResetError


def for_another_slot(listener, content):
    with pytest.raises(ChannelError):
        dial(listener.address, "t" * SLOT_CHARACTERS, listener.secret, 10).send([content])


@pytest.mark.parametrize(
    "attack",
    [raw, behind_the_preface, with_another_run_s_certificate, without_a_check_of_the_listener, for_another_slot],
)
def test_who_listens_gets_nothing_from_a_stranger(harm, attack):
    content, place = harm
    listener = Listener()
    attack(listener, content)
    assert isinstance(listener.ended(), ChannelError)
    assert listener.received is None and not place.exists()


def test_who_listens_with_a_key_gets_nothing_from_a_stranger(harm):
    content, place = harm
    listener = Listener(SharedKey(secrets.token_bytes(KEY_BYTES)))
    with socket.create_connection(listener.address) as connection:
        connection.sendall(PREFACE)
        stream = KeyedStream(connection, secrets.token_bytes(KEY_BYTES), server_side=False, deadline=time.monotonic() + 10)
        stream.write(memoryview(b"rtrain-remote-3\n" + message(content)))
        assert "does not have this key" in str(listener.ended())
    assert listener.received is None and not place.exists()


@pytest.mark.parametrize("secret", [RUN, SharedKey(secrets.token_bytes(KEY_BYTES))], ids=["certificate", "key"])
def test_who_dials_gets_nothing_from_one_that_listens_without_the_secret(harm, secret):
    content, place = harm
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def stranger():
            with listener.accept()[0] as connection:
                connection.sendall(secrets.token_bytes(32) + message(content))

        thread = threading.Thread(target=stranger)
        thread.start()
        with pytest.raises(ChannelError):
            dial(listener.getsockname(), SLOT, secret, 10)
        thread.join(60)
    assert not place.exists()


@pytest.mark.parametrize("secret", [RUN, SharedKey(secrets.token_bytes(KEY_BYTES))], ids=["certificate", "key"])
def test_who_has_the_secret_gets_through(secret):
    listener = Listener(secret)
    dial(listener.address, SLOT, secret, 10).send([b"hello"])
    assert listener.ended() is None and listener.received == [b"hello"]


# Every place of the package that unpickles, and the origin of its bytes. Add the origin for each new place.
UNPICKLED = {
    "_remote/_call_runs.py": "a channel whose both ends presented the run's certificate",
    "_remote/_worker.py": "the same, from the other side",
    "_remote/_pools/_slot.py": "a channel whose both ends presented the run's certificate",
    "_remote/_pools/_worker.py": "the same, from the other side",
    "_remote/_actors/_callers.py": "a channel of the maker of an actor or of a holder of its handle, who has the run's certificate",
    "_remote/_actors/_names.py": "a channel of the process that made this one, or that this one has made, and its run's certificate",
    "_remote/_actors/_server.py": "its own answer, before it is sent",
    "_remote/_values.py": "parts of a message of such a channel",
    "tune/_trial_loop.py": "a blob of this user, over the head's API",
    "tune/_file.py": "the user's own experiment",
    "tune/_objective.py": "the state of a searcher or scheduler of the user's own experiment",
    "tune/trainable.py": "a checkpoint of the user's own run",
    "train/_driver/_validation.py": "what the user's own training wrote for its validation; of another user's run nothing is read",
    "train/backend.py": "a call of the same run's rank 0",
    "train/_session/_gather.py": "values of the same run, over the head's API",
    "train/_checkpoint.py": "a checkpoint that the user asks to read",
    "train/_archive/_package.py": "the package that the user submitted, or whose directory the user restores",
    "train/_session/_cluster.py": "rank 0's broadcast of the same run, by the agent",
    "train/torch/_v1_checkpoint.py": "a checkpoint that the user asks to read",
    "train/_driver/_outcome.py": "the result of the user's own run, over the head's API",
    "_exception_pickle.py": "an exception where it was raised, and of the user's own run or call where it is read: its callers know whose",
    "data/_making/_processes/_blocks.py": "rows, over the socket pair of a rank and a process that it started",
    "data/_making/_processes/_main.py": "functions of the rank that started the process, over the same socket pair",
    "data/_torch.py": "a batch of the same process's loader",
}


def test_every_place_that_unpickles_says_whose_bytes_they_are():
    unpickles = re.compile(r"pickle\.loads?\(|Unpickler\(|torch\.load\(|joblib\.load\(|marshal\.loads?\(|shelve\.open\(")
    files = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if unpickles.search(file.read_text())}
    assert files == set(UNPICKLED)


class HeadOf:
    """A head with a run of one user. Another user sends requests to it."""

    def __init__(self, caller, content):
        self.caller, self.content_ = caller, content

    def get(self, path):
        return {"token": {"user": self.caller, "role": "admin"}}

    def items(self, path):
        return [{"key": "error-0", "bytes": len(self.content_)}]

    def content(self, path):
        return self.content_


def test_an_exception_or_a_return_value_of_another_user_s_run_is_not_unpickled(harm, capsys):
    from rtrain.train import UserExceptionWithTraceback
    from rtrain.train._driver import _outcome, _raised

    content, place = harm
    run = {"run_id": "r-1", "name": "theirs", "user": "ann", "attempt": 1, "state": "SUCCEEDED"}
    errors = _raised.exceptions(HeadOf("ben", b"1\n" + content), run, 1, {0: "ValueError: x"})
    assert type(errors[0]) is UserExceptionWithTraceback and str(errors[0]) == "ValueError: x"
    assert _outcome._return_value(HeadOf("ben", content), run) is None and "is not read" in capsys.readouterr().err
    assert not place.exists()
    own = _raised.exceptions(HeadOf("ann", b"1\n" + pickle.dumps(KeyError("x"))), run, 1, {0: "KeyError: x"})
    assert type(own[0]) is KeyError and str(own[0].__cause__) == "KeyError: x"
    earlier = _raised.exceptions(HeadOf("ann", b"1\n" + pickle.dumps(KeyError("x"))), run, 2, {0: "ValueError: y"})
    assert type(earlier[0]) is UserExceptionWithTraceback  # from the attempt before


def driver_pkl(place):
    """Returns a driver.pkl whose every part makes a file when it is unpickled."""
    harm = pickle.dumps(Harm(str(place)))
    return Payload({}, {"validation": harm, "config": harm}).to_bytes()


def test_an_attached_driver_validates_nothing_of_another_user_s_run(harm, capsys):
    from rtrain.train._driver._validation import Validator

    _, place = harm
    run = {"run_id": "r-1", "name": "theirs", "user": "ann", "run_path": "/x", "job": {"env": {"RTRAIN_DRIVER_SHA256": "d"}}}
    Validator(HeadOf("ben", driver_pkl(place)), run).finish()
    assert not place.exists()
    assert "theirs is a run of user ann, whose code it would run here" in capsys.readouterr().err
    Validator(HeadOf("ann", driver_pkl(place)), run).finish()
    assert place.exists()


def test_going_on_where_another_user_s_run_ended_unpickles_nothing(harm):
    from rtrain.train._driver._restore import differences

    _, place = harm
    before = {"user": "ann", "job": {"env": {"RTRAIN_DRIVER_SHA256": "d"}, "scaling": {"workers": 2}}}
    now = {"user": "ben", "job": {"scaling": {"workers": 3}}}
    assert differences(HeadOf("ben", driver_pkl(place)), before, now, b"") == ["scaling.workers: 2 -> 3"]
    assert not place.exists()
    differences(HeadOf("ann", driver_pkl(place)), before, now, pickle.dumps(None))
    assert place.exists()
