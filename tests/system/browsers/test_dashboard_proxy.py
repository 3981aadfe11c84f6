"""Tests that the local proxy of `rtrain dashboard` refuses other users of the machine, over IPv4 and IPv4-mapped addresses
and whatever secrets they know.
"""

import os
import pathlib
import re
import signal
import stat
import subprocess

import pytest
from local_cluster import RTRAIN, LocalCluster, wait_for

NOBODY = 65534
IPV4, MAPPED = "127.0.0.1", "::ffff:127.0.0.1"
ROADS = pytest.mark.parametrize("road", [IPV4, MAPPED])
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")

# Sends a request and prints the response. With `leaves` it closes the connection right after the request.
CLIENT = """
import socket, sys
road, port, request, leaves = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode().decode("unicode_escape"), sys.argv[4] == "True"
client = socket.socket(socket.AF_INET6 if ":" in road else socket.AF_INET)
client.settimeout(60)
try:
    client.connect((road, port))
    client.sendall(request.encode())
    if leaves:
        client.close()
        sys.exit()
    while piece := client.recv(65536):
        sys.stdout.buffer.write(piece)
        sys.stdout.flush()
except ConnectionError:
    pass
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("proxy") / "cluster", nodes=0)
    yield made
    made.stop()


class Proxy:
    def __init__(self, cluster, *flags, **variables):
        token = cluster.json("token", "create", "--role", "admin", "--user", "ana")["token"]
        self.process = subprocess.Popen(
            [RTRAIN, "dashboard", *flags],
            env={**cluster.env, "RTRAIN_TOKEN": token, **variables},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.link = self.process.stdout.readline().strip()
        self.port, self.opens = int(self.link.split(":")[2].split("/")[0]), "/open/" + self.link.rsplit("/", 1)[1]

    def call(self, road, target, cookie="", user=0, leaves=False, method="GET"):
        lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Connection: close"]
        lines += [f"Cookie: {cookie}"] * (cookie != "")
        request = "\\r\\n".join([*lines, "", ""])
        change = {"user": user, "group": user, "extra_groups": []} if user else {}
        made = subprocess.run(
            ["/usr/bin/python3", "-c", CLIENT, road, str(self.port), request, str(leaves)],
            capture_output=True,
            text=True,
            **change,
        )
        assert made.returncode == 0, made.stderr
        return made.stdout

    def open(self):
        answer = self.call(IPV4, self.opens)
        assert answer.startswith("HTTP/1.1 200"), answer
        return re.search(r"set-cookie: ([^;]+);", answer, re.IGNORECASE).group(1)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(30) == 0


@pytest.fixture
def proxy(cluster):
    made = Proxy(cluster, "--no-open")
    yield made
    made.stop()


@as_root
@ROADS
def test_another_user_who_knows_the_link_is_refused_and_does_not_use_it_up(proxy, road):
    assert proxy.call(road, proxy.opens, user=NOBODY) == ""
    assert proxy.call(road, proxy.opens, user=NOBODY, leaves=True) == ""
    assert '"role":"admin"' in proxy.call(road, "/v1/session", cookie=proxy.open())


@as_root
@ROADS
def test_a_cookie_that_another_user_has_is_worth_nothing(proxy, road):
    cookie = proxy.open()
    assert '"role":"admin"' in proxy.call(road, "/v1/session", cookie=cookie)
    assert proxy.call(road, "/v1/session", cookie=cookie, user=NOBODY) == ""


def test_each_road_of_its_own_user_is_taken(proxy):
    cookie = proxy.open()
    for road in (IPV4, MAPPED):
        for _ in range(20):
            assert '"role":"admin"' in proxy.call(road, "/v1/session", cookie=cookie)


# A browser that writes its command line to $KEPT.
BROWSER = """#!/bin/sh
printf '%s\\n' "$@" >"$KEPT.part"
mv "$KEPT.part" "$KEPT"
"""


def test_the_browser_is_given_a_file_that_its_user_alone_reads(cluster, tmp_path):
    browser, kept, runtime = tmp_path / "browser", tmp_path / "kept", tmp_path / "run time"
    browser.write_text(BROWSER)
    browser.chmod(0o755)
    runtime.mkdir(0o700)
    proxy = Proxy(cluster, BROWSER=str(browser), KEPT=str(kept), XDG_RUNTIME_DIR=str(runtime))
    try:
        wait_for("the browser", kept.exists, seconds=60)
        address = kept.read_text().strip()
        assert address.startswith("file://") and proxy.opens.rsplit("/", 1)[1] not in address
        page = pathlib.Path(address.removeprefix("file://").replace("%20", " "))
        assert page.is_relative_to(runtime) and page.parent != runtime
        assert stat.S_IMODE(page.stat().st_mode) == 0o600 and stat.S_IMODE(page.parent.stat().st_mode) == 0o700
        assert f'content="0;url={proxy.link}"' in page.read_text()
        for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                assert proxy.opens.encode() not in process.read_bytes() or process.parent.name == str(os.getpid())
            except OSError:
                continue
        proxy.open()
        wait_for("the file's end", lambda: not page.parent.exists(), seconds=60)
    finally:
        proxy.stop()


def test_a_file_that_no_browser_used_ends_with_the_proxy(cluster, tmp_path):
    proxy = Proxy(cluster, BROWSER="/bin/true", XDG_RUNTIME_DIR=str(tmp_path))
    assert list(tmp_path.iterdir())
    proxy.stop()
    assert not list(tmp_path.iterdir())
