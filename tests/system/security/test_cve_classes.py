"""Tests each class of vulnerability that comparable systems had: jobs without a login (CVE-2023-48022), requests on behalf
of others (SSRF), DNS rebinding, path traversal, pickle from the network. tests/python/travels/test_pickle_from_strangers.py covers
pickle in remote calls.
"""

import json
import os
import pathlib
import pickle
import re
import secrets
import socket
import ssl
import threading

import pytest
from jobs_on_disk import write_job
from local_cluster import ROOT, LocalCluster, wait_for


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("classes") / "cluster", nodes=1)
    try:
        made.rtrain("submit", write_job(made.folder, "mine", ["true"]))
        made.wait_state("mine", "SUCCEEDED")
        made.admin = made.json("token", "create", "--role", "admin", "--user", "root")["token"]
        made.user = made.json("token", "create", "--role", "user", "--user", "ann")["token"]
        yield made
    finally:
        made.stop()


def exchange(port, head, body=b"", tls=True):
    """Sends these bytes; returns (status, complete response), or (0, ...) if there is no response."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
        try:
            connection = ssl._create_unverified_context().wrap_socket(plain) if tls else plain
            connection.sendall(head.encode("latin-1") + b"\r\n\r\n" + body)
            while piece := connection.recv(65536):
                received += piece
        except OSError:
            pass
    match = re.match(rb"HTTP/1\.1 (\d+)", received)
    return (int(match[1]) if match else 0), received


def call(port, method, target, body=b"", **headers):
    lines = {"Host": f"127.0.0.1:{port}", "Connection": "close", "Content-Length": str(len(body)), **headers}
    return exchange(
        port, "\r\n".join([f"{method} {target} HTTP/1.1", *(f"{key}: {value}" for key, value in lines.items())]), body
    )


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def routes(value):
    described = json.loads((ROOT / "configs" / "openapi.json").read_text())["paths"]
    for path, methods in described.items():
        for method in methods:
            if method in ("get", "put", "post", "delete", "head"):
                yield method.upper(), re.sub(r"\{[^}]*\}", value, path)


# ---- jobs without a login ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic YWRtaW46YWRtaW4="},
        {"X-Forwarded-For": "127.0.0.1", "X-User": "root"},
    ],
    ids=["nothing", "empty", "basic", "headers of a proxy"],
)
def test_a_job_is_not_submitted_without_a_token(cluster, tmp_path, shown):
    done = tmp_path / "ran"
    job = {"version": 1, "name": f"no-{secrets.token_hex(4)}", "entrypoint": ["touch", str(done)], "scaling": {"workers": 1}}
    body = json.dumps({"job": job, "key": secrets.token_hex(8)}).encode()
    for target in ("/v1/runs", "/v1/runs/", "//v1/runs", "/v1/plan", "/api/jobs/", "/v1/runs?token=" + cluster.admin):
        assert call(cluster.port, "POST", target, body, **shown)[0] in (400, 401), target
    assert job["name"] not in {run["name"] for run in cluster.json("runs", "--all")["items"]}
    assert not done.exists()


def test_a_job_is_not_submitted_without_tls(cluster):
    """Sends a valid token, which is refused too, since anybody can read it on the network."""
    head = f"POST /v1/runs HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nConnection: close\r\nAuthorization: Bearer {cluster.admin}"
    assert exchange(cluster.port, head, b"{}", tls=False)[0] in (0, 400)


# ---- requests on behalf of others -------------------------------------------------------------------------------------------
class Canary:
    """A port that no daemon may connect to."""

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(0.2)
        self.port, self.came, self.ending = self.listener.getsockname()[1], 0, threading.Event()
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()
        return self

    def _listen(self):
        while not self.ending.is_set():
            try:
                self.listener.accept()[0].close()
                self.came += 1
            except TimeoutError:
                pass

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join()
        self.listener.close()


def test_the_head_asks_nobody_on_behalf_of_a_caller(cluster):
    with Canary() as canary:
        address = f"127.0.0.1:{canary.port}"
        asked = 0
        for value in (address, f"http:%2F%2F{address}%2Fx", f"@{address}"):
            for method, path in routes(value):
                if "head/stop" in path:
                    continue
                query = "&".join(
                    f"{name}=http://{address}/" for name in ("url", "target", "host", "node", "address", "path", "restore_from")
                )
                body = (
                    json.dumps({"url": f"http://{address}", "address": address, "node": address}).encode()
                    if method == "POST"
                    else b"x"
                )
                call(cluster.port, method, f"{path}?{query}", body, **bearer(cluster.user))
                asked += 1
        for line in (f"GET http://{address}/ HTTP/1.1", f"CONNECT {address} HTTP/1.1", f"GET //{address}/v1/runs HTTP/1.1"):
            status, _ = exchange(
                cluster.port, f"{line}\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {cluster.user}"
            )
            assert status == 0 or status >= 400, line
        for path in (f"http://{address}/x", f"ftp://{address}", f"https://{address}"):
            job = {
                "version": 1,
                "name": "out",
                "entrypoint": ["true"],
                "scaling": {"workers": 1},
                "checkpoint": {"storage_path": path},
            }
            assert (
                call(cluster.port, "POST", "/v1/runs", json.dumps({"job": job, "key": path}).encode(), **bearer(cluster.user))[0]
                >= 400
            )
        assert asked > 100
        assert canary.came == 0


# ---- DNS rebinding ----------------------------------------------------------------------------------------------------------
def test_a_page_whose_name_was_bound_to_this_address_gets_nothing(cluster):
    """Sends the token as a cookie, which a browser attaches by itself. It is not accepted, and no other site may read a
    response.
    """
    rebound = {"Host": "attacker.example", "Origin": "https://attacker.example", "Referer": "https://attacker.example/",
               "Cookie": f"token={cluster.admin}; Authorization=Bearer {cluster.admin}"}  # fmt: skip
    asked = 0
    for method, path in routes("x"):
        status, answer = call(cluster.port, method, path, **rebound)
        headers = answer.partition(b"\r\n\r\n")[0].lower()
        assert b"access-control-" not in headers and b"set-cookie" not in headers, path
        for_browsers = path in ("/", "/favicon.svg") or path.startswith("/assets/") or (method, path) == ("POST", "/v1/session")
        expected = 200 if path == "/healthz" else 400 if path == "/v1/join" else 403 if for_browsers else 401
        assert status == expected, f"{method} {path}"
        preflight, _ = call(cluster.port, "OPTIONS", path, **rebound, **{"Access-Control-Request-Method": method})
        assert preflight >= 400, path
        asked += 1
    assert asked > 30


# ---- path traversal ---------------------------------------------------------------------------------------------------------
CLIMBS = ["../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "....//", "..%00/", "%252e%252e%252f", "..;/"]


def secret_files(cluster):
    """Returns files of the head with private keys, relative to its data directory. No route may serve them."""
    data = cluster.folder / "head"
    key_files = [
        str(file.relative_to(data)) for file in data.rglob("*") if file.is_file() and b"PRIVATE KEY" in file.read_bytes()
    ]
    assert key_files
    return key_files


@pytest.mark.parametrize("role", ["admin", "user"])
def test_no_path_leads_out_of_what_a_route_serves(cluster, role):
    token = getattr(cluster, role)
    asked = 0
    for file in ["etc/passwd", *secret_files(cluster)]:
        for climb in CLIMBS:
            for base in (
                "/v1/runs/mine/files/",
                "/v1/storage/",
                "/v1/storage/mine/",
                "/v1/blobs/",
                "/v1/runs/mine/values/",
                "/v1/runs/",
            ):
                for depth in (1, 2, 9):
                    for suffix in ("", "?list=1"):
                        status, answer = call(cluster.port, "GET", base + climb * depth + file + suffix, **bearer(token))
                        assert b"PRIVATE KEY" not in answer and b"root:x:" not in answer, base + climb
                        # "..\" and "..;" are ordinary names here: nothing has them, so a listing of them is empty
                        assert status >= 400 or b'"items":[],' in answer, (base + climb * depth + file, answer[:300])
                        asked += 1
        for base in ("/v1/runs/mine/files/", "/v1/storage/"):
            for absolute in ("/", "%2f", str(cluster.folder / "head") + "/"):
                status, answer = call(cluster.port, "GET", base + absolute + file, **bearer(token))
                assert status >= 400 and b"PRIVATE KEY" not in answer, base + absolute
    assert asked > 200


def test_nothing_is_written_out_of_its_place(cluster):
    marker = f"out-{secrets.token_hex(4)}"
    for climb in CLIMBS:
        for base in ("/v1/storage/", "/v1/storage/mine/", "/v1/blobs/"):
            for method in ("PUT", "DELETE"):
                call(cluster.port, method, base + climb * 2 + marker, b"x", **bearer(cluster.admin))
    inside = cluster.folder / "head" / "storage"
    out = [file for file in cluster.folder.rglob(f"*{marker}*") if inside not in file.parents]
    assert out == [] and not (cluster.folder.parent / marker).exists()


@pytest.mark.parametrize("name", ["../up", "a/b", "/abs", "..", ".", "a\x00b", ".hidden", "a\\b", "x" * 200])
def test_a_run_s_name_is_no_path(cluster, name):
    job = {"version": 1, "name": name, "entrypoint": ["true"], "scaling": {"workers": 1}}
    status, _ = call(
        cluster.port, "POST", "/v1/runs", json.dumps({"job": job, "key": secrets.token_hex(8)}).encode(), **bearer(cluster.user)
    )
    assert status in (400, 422)


# ---- pickle from the network ------------------------------------------------------------------------------------------------
class Harm:
    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return (os.mkdir, (str(self.file),))


def test_no_daemon_unpickles_what_it_is_sent(cluster, tmp_path):
    """Sends a pickle to the head, to the agent's port for peers, and to the agent's socket for workers."""
    content = pickle.dumps(Harm(tmp_path / "ran"))
    listening = {cluster.port}
    for line in [*kernel_table("tcp"), *kernel_table("tcp6")]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes_of(cluster):
            listening.add(int(fields[1].rpartition(":")[2], 16))
    assert len(listening) >= 2
    for port in listening:
        for tls in (True, False):
            exchange(port, "POST /v1/runs HTTP/1.1\r\nHost: h", content, tls=tls)
            exchange(port, content.decode("latin-1"), content, tls=tls)
    sockets = [line.split()[7] for line in kernel_table("unix") if str(cluster.folder) in line]
    for path in sockets:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.sendall(len(content).to_bytes(4, "big") + content)
    assert cluster.run("status").returncode == 0
    wait_for("the node", lambda: cluster.ready_nodes() == 1)
    assert not (tmp_path / "ran").exists()


def kernel_table(name):
    return pathlib.Path("/proc/net", name).read_text().splitlines()[1:]


def inodes_of(cluster):
    """Returns the inodes of all sockets that the cluster's daemons have open."""
    inodes = set()
    for daemon in cluster.daemons.values():
        folder = f"/proc/{daemon.pid}/fd"
        for name in os.listdir(folder):
            try:
                match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"{folder}/{name}"))
            except OSError:
                continue
            if match:
                inodes.add(match[1])
    return inodes
