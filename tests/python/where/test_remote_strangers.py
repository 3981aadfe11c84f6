"""Remote calls of a real cluster, seen by strangers: what they read, send, and find in files; workers of an earlier version."""

from __future__ import annotations

import channels
from homes import Home


def test_what_is_sent_cannot_be_read_on_its_way(home: Home) -> None:
    out = home.script("""
        import socket
        import rtrain

        rtrain.init(num_cpus=1)
        seen = []

        class Tapped(socket.socket):
            def recv(self, *arguments):
                text = super().recv(*arguments)
                seen.append(text)
                return text

        def accept(listener):
            fd, address = listener._accept()
            return Tapped(fileno=fd), address

        socket.socket.accept = accept
        needle = b"a secret that is easy to find" * 100
        print(rtrain.get(rtrain.remote(lambda: b"a secret that is easy to find" * 100).remote()) == needle)
        print(sum(map(len, seen)) > len(needle), b"easy to find" in b"".join(seen))
    """)
    assert out.splitlines() == ["True", "True False"]


def test_strangers_are_not_served(home: Home) -> None:
    out = home.script(
        """
        import socket
        import sys
        import rtrain
        from rtrain._remote import _call_runs
        from rtrain._remote._channel import ChannelError, dial
        from rtrain._remote._cipher import Identity

        rtrain.init(num_cpus=1)
        call_runs = _call_runs.call_runs()
        host, _, port = call_runs.address.rpartition(":")

        @rtrain.remote
        class Actor:
            def one(self):
                return 1

        actor = Actor.remote()
        print(rtrain.get(actor.one.remote()))
        for slot in ("0" * 16, *call_runs._slots):
            try:
                dial((host, int(port)), slot, Identity(sys.argv[1]), 5)
            except ChannelError as error:
                print(error)
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n" * 4)
            try:
                print(stranger.recv(10))
            except ConnectionResetError:
                print(b"")
        print(rtrain.get(actor.one.remote()))
        """,
        channels.RUN,
    )
    unknown = "the other side ended the handshake: its rtrain may be another version, or its call has ended"
    assert out.splitlines() == ["1", unknown, "the other side has a certificate of another run", "b''", "1"]


def test_a_worker_of_an_earlier_version_is_named_as_the_cause(home: Home) -> None:
    """A worker that connects as version 0.1.0 did: TLS 1.2 from the first byte, then its own address."""
    out = home.script("""
        import rtrain
        from rtrain._remote import _call_runs

        rtrain.init(num_cpus=1)
        remote_call = rtrain.remote(lambda: 1)
        job = _call_runs.CallRuns.submit
        EARLIER = (
            "import os, socket, ssl, rtrain.train\\n"
            "bytes.fromhex(os.environ['RTRAIN_REMOTE_KEY'])\\n"
            "host, _, port = os.environ['RTRAIN_REMOTE_DRIVER'].rpartition(':')\\n"
            "context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\\n"
            "context.check_hostname, context.verify_mode = False, ssl.CERT_NONE\\n"
            "context.maximum_version = ssl.TLSVersion.TLSv1_2\\n"
            "try:\\n"
            "    context.wrap_socket(socket.create_connection((host, int(port)))).close()\\n"
            "except OSError:\\n"
            "    pass\\n"
            "listener = socket.create_server(('127.0.0.1', 0))\\n"
            "rtrain.train.report({'rtrain_remote_address': '127.0.0.1:%d' % listener.getsockname()[1]})\\n"
            "listener.accept()[0].close()\\n"
            "listener.accept()\\n"
        )

        def submit(call_runs, slot):
            slot.job["entrypoint"] = [slot.job["entrypoint"][0], "-c", EARLIER]
            return job(call_runs, slot)

        _call_runs.CallRuns.submit = submit
        try:
            rtrain.get(remote_call.remote(), timeout=60)
        except rtrain.exceptions.WorkerCrashedError as error:
            print(error)
    """)
    assert "its rtrain may be another version" in out, out


def test_a_remote_call_s_key_is_in_no_file_of_the_cluster(home: Home) -> None:
    out = home.script("""
        import os
        import pathlib
        import rtrain

        rtrain.init(num_cpus=1)

        @rtrain.remote
        class Actor:
            def key(self):
                return os.environ["RTRAIN_CHANNEL"].partition(".")[2]

        actor = Actor.remote()
        key = rtrain.get(actor.key.remote())
        files = [file for file in pathlib.Path.home().rglob("*") if file.is_file() and not file.is_symlink()]
        print(len(key), any(file.suffix == ".db" for file in files))
        print([str(file) for file in files if key.encode() in file.read_bytes()])
    """)
    assert out.splitlines() == ["64 True", "[]"]
