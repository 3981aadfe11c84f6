"""The context file in the forms that people and `rtrain` write, and the errors for wrong files."""

from __future__ import annotations

import http.client
import http.server
import select
import threading

import pytest
from rtrain import _http
from rtrain._http import Head, HeadError, Unreachable
from rtrain._settings import ConfigurationError, Place, current_place, read_yaml, split_address

WRITTEN = """# Written by rtrain; holds tokens: keep it to yourself.
contexts:
  local:
    address: "127.0.0.1:7433"
    ca: "-----BEGIN CERTIFICATE-----\\nabc\\n-----END CERTIFICATE-----\\n"
    token: rtu1.a.b
  "10.0.0.1:7433":
    address: "10.0.0.1:7433"
    token: "rtu1:x"
current: local
"""
BY_HAND = """
current: far   # the big one
contexts:
  far:
    address: far.example.org
    token: 'it''s'
    ca: |
      -----BEGIN CERTIFICATE-----
      abc
      -----END CERTIFICATE-----
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    for name in ("ADDRESS", "TOKEN", "CA", "CA_FINGERPRINT", "CONTEXT"):
        monkeypatch.delenv(f"RTRAIN_{name}", raising=False)
    monkeypatch.setenv("RTRAIN_CONFIG", str(tmp_path / "config.yaml"))
    return tmp_path / "config.yaml"


def test_the_file_that_rtrain_writes_is_read(alone):
    alone.write_text(WRITTEN)
    place = current_place()
    assert (place.address, place.token) == ("127.0.0.1:7433", "rtu1.a.b")
    assert place.ca.splitlines()[1] == "abc"
    assert current_place("10.0.0.1:7433").token == "rtu1:x"


def test_a_file_written_by_hand_is_read(alone):
    alone.write_text(BY_HAND)
    place = current_place()
    assert place.host_port == ("far.example.org", 7433)
    assert (place.token, place.ca.count("\n")) == ("it's", 3)


def test_the_environment_wins_and_may_name_a_file_with_the_ca(alone, monkeypatch, tmp_path):
    alone.write_text(WRITTEN)
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\nother\n")
    monkeypatch.setenv("RTRAIN_ADDRESS", "[fd00::5]:99")
    monkeypatch.setenv("RTRAIN_CA", str(tmp_path / "ca.crt"))
    place = current_place()
    assert (place.host_port, place.token) == (("fd00::5", 99), "rtu1.a.b")
    assert "other" in place.ca


def test_no_file_is_no_cluster_and_a_wrong_one_is_named(alone, monkeypatch):
    assert current_place() is None
    with pytest.raises(Unreachable, match="no cluster is known"):
        Head.current()
    for text, wrong in [
        ("contexts:\n  a:\n    address: x\n   token: y\n", r"config.yaml:4: "),
        ("current: a\ncontexts: {}\ncurrent: b\n", r"config.yaml:3: current is given twice"),
        ("- a\n", r"config.yaml:1: expected `name: value`"),
        ("current: 'a\n", r"config.yaml:\d: "),
        ("[a]: b\n", r"config.yaml:1: a name is a text"),
        ("current: a\ncontexts: &all\n  a: *all\n", r"config.yaml:2: this is a part of itself"),
        ("current: a\ncontexts:\n  - &one [b, *one]\n", r"config.yaml:3: this is a part of itself"),
        ("current: a\ntoken: b\x01\n", r"config.yaml:2: special characters are not allowed"),
        ("current: a\ntoken: \udcff\n", r"config.yaml:2: .*invalid start byte"),
    ]:
        alone.write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(ConfigurationError, match=wrong):
            read_yaml(alone)
    many = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
    alone.write_text(f"current: a\na0: &a0 x\n{many}")  # shared parts are read once
    assert read_yaml(alone)["a1"] == ["x"] * 9
    alone.write_text("# nothing yet\n")
    assert read_yaml(alone) == {}
    alone.write_text(
        "current: no\ncontexts:\n  no: {address: 'h:1', token: 0123, ca:}\n  other:\n"
    )  # values are texts, whatever their form
    assert read_yaml(alone) == {"current": "no", "contexts": {"no": {"address": "h:1", "token": "0123", "ca": ""}, "other": ""}}
    alone.write_text("contexts:\n  a:\n    address x\n")
    with pytest.raises(ConfigurationError, match="contexts.a must be a map"):
        current_place("a")
    alone.write_text(WRITTEN)
    monkeypatch.setenv("RTRAIN_CONTEXT", "elsewhere")
    with pytest.raises(HeadError, match='no context "elsewhere"'):
        Head.current()
    with pytest.raises(ConfigurationError, match="HOST:PORT"):
        split_address("host:port")


class CutsTheFirst(http.server.BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self):
        type(self).asked += 1
        self.send_response(200)
        self.send_header("Content-Length", "10")
        self.end_headers()
        self.wfile.write(b"01234" if self.asked == 1 else b"0123456789")

    def log_message(self, *_):
        pass


def test_a_download_that_the_head_cut_short_is_asked_for_again(monkeypatch, tmp_path):
    server = http.server.HTTPServer(("127.0.0.1", 0), CutsTheFirst)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    monkeypatch.setattr(Head, "_connection", lambda self: http.client.HTTPConnection("127.0.0.1", port, timeout=10))
    try:
        with pytest.raises(Unreachable, match="5 bytes early|IncompleteRead"):
            Head(Place(f"127.0.0.1:{port}")).download("/v1/file", tmp_path / "none")
        assert list(tmp_path.iterdir()) == []
        CutsTheFirst.asked = 0
        Head(Place(f"127.0.0.1:{port}"), patience_s=30).download("/v1/file", tmp_path / "whole")
        assert (tmp_path / "whole").read_text() == "0123456789"
    finally:
        server.shutdown()
        server.server_close()


class ClosesQuietOnes(http.server.BaseHTTPRequestHandler):
    """Closes a connection after an answer to `/closes` without announcing it, as a head does after 75 s."""

    protocol_version = "HTTP/1.1"
    connections, posted = 0, 0

    def setup(self):
        type(self).connections += 1
        super().setup()

    def do_POST(self):
        type(self).posted += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
        self.close_connection = self.path == "/closes"

    def log_message(self, *_):
        pass


def test_a_post_does_not_go_out_on_a_connection_that_the_head_has_closed_meanwhile(monkeypatch):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ClosesQuietOnes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(
        _http, "_Connection", lambda host, port, _tls, timeout: http.client.HTTPConnection(host, port, timeout=timeout)
    )
    monkeypatch.setattr(_http, "_tls", lambda place: place)
    head = Head(Place(f"127.0.0.1:{server.server_address[1]}"))
    try:
        head.post("/stays")
        head.post("/closes")
        assert (ClosesQuietOnes.posted, ClosesQuietOnes.connections) == (2, 1)  # an open connection is used again
        assert select.select([head._idle[0].sock], [], [], 60)[0]  # the connection has been closed
        head.post("/stays")
        assert (ClosesQuietOnes.posted, ClosesQuietOnes.connections) == (3, 2)
    finally:
        server.shutdown()
        server.server_close()


class BusyTwice(http.server.BaseHTTPRequestHandler):
    """Refuses the first two requests with 429, and the third one if `always`."""

    protocol_version = "HTTP/1.1"
    bodies: list[bytes] = []
    always = False

    def answer(self):
        type(self).bodies.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        text = b'{"code": "full", "message": "token t changes too much", "next": "wait"}'
        if len(self.bodies) > 2 and not self.always:
            self.send_response(200)
            text = b"{}"
        else:
            self.send_response(429)
            self.send_header("Retry-After", "7")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *_):
        pass


def test_a_busy_head_is_asked_again_when_it_says_and_not_for_ever(monkeypatch, tmp_path, capsys):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), BusyTwice)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    monkeypatch.setattr(Head, "_connection", lambda self, *_, **__: http.client.HTTPConnection("127.0.0.1", port, timeout=10))
    now = [100.0]
    monkeypatch.setattr(_http.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(_http.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    head = Head(Place(f"127.0.0.1:{port}"))
    try:
        head.post("/v1/runs", {"job": 1})
        assert now[0] == 114.0
        assert BusyTwice.bodies == [b'{"job": 1}'] * 3
        assert capsys.readouterr().err == (
            "rtrain: the head refused for now: token t changes too much; asked again in 7 s, for 60 s at most\n"
        )

        BusyTwice.bodies.clear()
        (tmp_path / "blob").write_bytes(b"content")
        with (tmp_path / "blob").open("rb") as stream:
            head._request("PUT", "/v1/blobs/x", None, stream, {"Content-Length": "7"})
        assert BusyTwice.bodies == [b"content"] * 3  # a file is sent again as a whole

        BusyTwice.bodies.clear()
        BusyTwice.always = True
        begin = now[0]
        with pytest.raises(_http.Busy, match="changes too much"):
            head.get("/v1/runs")
        assert begin + 50 < now[0] <= begin + 60
    finally:
        server.shutdown()
        server.server_close()
