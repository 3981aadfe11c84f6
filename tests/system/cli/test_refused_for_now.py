"""Tests that the command line repeats a request that the head refuses temporarily: after the delay that the head names, for
at most one minute.
"""

import contextlib
import http.server
import itertools
import json
import os
import ssl
import subprocess
import threading
import time

import pytest
from local_cluster import RTRAIN, environment


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    names = ["-subj", "/CN=rtrain-head", "-addext", "subjectAltName=IP:127.0.0.1"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(folder / "key")]
    subprocess.run(["openssl", "req", "-x509", *key, "-out", str(folder / "crt"), *names], check=True, capture_output=True)
    return folder


@contextlib.contextmanager
def refusing_head(certificate, refusals, retry_after):
    """Answers the first `refusals` requests with 429. Yields its port and the times of all requests."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            asked.append(time.monotonic())
            refused = len(asked) <= refusals
            body = {"code": "full", "message": "too many streams", "next": "wait"} if refused else {"items": []}
            text = json.dumps(body).encode()
            self.send_response(429 if refused else 200)
            if refused:
                self.send_header("Retry-After", retry_after)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "crt", certificate / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def list_tokens(certificate, port):
    env = environment(certificate / "config.yaml")
    env |= {"RTRAIN_ADDRESS": f"127.0.0.1:{port}", "RTRAIN_CA": str(certificate / "crt"), "RTRAIN_TOKEN": "rtu1.a.b"}
    return subprocess.run([os.fspath(RTRAIN), "token", "list"], env=env, capture_output=True, text=True, timeout=100)


def test_a_refused_command_waits_as_the_head_asks(certificate):
    with refusing_head(certificate, refusals=2, retry_after="1") as (port, asked):
        done = list_tokens(certificate, port)
    assert done.returncode == 0, done.stderr
    assert len(asked) == 3
    assert all(later - earlier >= 1 for earlier, later in itertools.pairwise(asked))
    assert "the head refused for now: too many streams; asked again in 1 s, for 60 s at most" in done.stderr


@pytest.mark.parametrize("retry_after", ["61", "99999", "soon", "-1"])
def test_a_refused_command_fails_at_once_if_the_wait_is_too_long(certificate, retry_after):
    with refusing_head(certificate, refusals=9, retry_after=retry_after) as (port, asked):
        done = list_tokens(certificate, port)
    assert done.returncode != 0
    assert len(asked) == 1
    assert "too many streams" in done.stderr
