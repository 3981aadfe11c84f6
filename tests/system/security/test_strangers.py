"""Tests access to every port and every route without a secret, and with a wrong one, an old one, and one of another role."""

import hashlib
import http.client
import json
import re
import ssl
import subprocess
import tempfile

import pytest
from jobs_on_disk import write_job
from local_cluster import ROOT, RTRAIN, LocalCluster, free_port, wait_for


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("strangers") / "cluster", nodes=1)
    yield made
    made.stop()


def identity_of(data):
    """Returns the identity of the node with this data directory, including its certificate and key."""
    return json.loads((data / "identity" / "node.json").read_text())


def call(port, method, path, token=None, body=None, identity=None):
    """Sends an HTTPS request without a check of the server's certificate, as an attacker's tool would. `identity` is a
    result of identity_of().
    """
    context = ssl._create_unverified_context()
    if identity:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:
            both.write(identity["private_key"] + identity["certificate"])
            both.flush()
            context.load_cert_chain(both.name)
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request(method, path, body=body, headers=headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, text


def routes():
    described = json.loads((ROOT / "configs" / "openapi.json").read_text())["paths"]
    for path, methods in described.items():
        for method in methods:
            if method in ("get", "put", "post", "delete", "head"):
                yield method.upper(), re.sub(r"\{[^}]*\}", "x", path)


# The page's files are public and contain no data of a cluster. A sign-in needs no token yet.
OPEN = {
    ("GET", "/healthz"),
    ("POST", "/v1/join"),
    ("GET", "/"),
    ("GET", "/favicon.svg"),
    ("GET", "/assets/x"),
    ("POST", "/v1/session"),
}


@pytest.mark.parametrize("token", [None, "rtu1.0000.1111", "nonsense"])
def test_no_route_answers_without_a_good_token(cluster, token):
    asked = 0
    for method, path in routes():
        if (method, path) in OPEN:
            continue
        status, _ = call(cluster.port, method, path, token)
        assert status in (401, 403), f"{method} {path} answered {status}"
        asked += 1
    assert asked >= 20


def test_signing_in_needs_a_good_token(cluster):
    for body in ("", "{}", json.dumps({"token": "rtu1.0000.1111"}), json.dumps({"token": "nonsense"})):
        status, text = call(cluster.port, "POST", "/v1/session", body=body)
        assert status in (400, 401, 403, 422) and b"csrf" not in text.lower(), f"{body}: {status} {text}"


def test_a_join_needs_a_good_token(cluster):
    status, text = call(
        cluster.port, "POST", "/v1/join", body=json.dumps({"token": "rtn1.aa.bb.cc", "node": "x", "request": "y"})
    )
    assert status in (401, 403, 422) and b"BEGIN CERTIFICATE" not in text


def test_a_revoked_token_and_an_expired_one_are_refused_and_say_so(cluster):
    made = cluster.json("token", "create", "--role", "viewer", "--user", "eve")
    assert call(cluster.port, "GET", "/v1/runs", made["token"])[0] == 200
    cluster.rtrain("token", "revoke", made["id"], "--yes")
    status, text = call(cluster.port, "GET", "/v1/runs", made["token"])
    assert status == 401 and b"revoked" in text
    short = cluster.json("token", "create", "--role", "viewer", "--user", "eve", "--expires", "1ms")
    wait_for("it to expire", lambda: call(cluster.port, "GET", "/v1/runs", short["token"])[0] == 401, 10)
    assert b"expired" in call(cluster.port, "GET", "/v1/runs", short["token"])[1]


def test_a_viewer_reads_and_changes_nothing(cluster):
    token = cluster.json("token", "create", "--role", "viewer", "--user", "eve")["token"]
    assert call(cluster.port, "GET", "/v1/nodes", token)[0] == 200
    for method, path, body in [
        ("POST", "/v1/runs", "{}"),
        ("POST", "/v1/nodes/node-1/drain", "{}"),
        ("POST", "/v1/tokens", "{}"),
        ("POST", "/v1/head/stop", "{}"),
        ("DELETE", "/v1/runs/x", None),
    ]:
        assert call(cluster.port, method, path, token, body)[0] == 403, path


def test_a_node_token_works_once(cluster, tmp_path):
    token = cluster.json("token", "create", "--role", "node")["token"]
    base = [RTRAIN, "node", "join", f"127.0.0.1:{cluster.port}", "--token", token, "--peer-port", "0", "--allow-root-workers"]
    first = subprocess.Popen(
        [*base, "--name", "once", "--data", str(tmp_path / "once")], env=cluster.env, stderr=subprocess.DEVNULL
    )
    try:
        wait_for("the node", lambda: any(n["node"] == "once" for n in cluster.json("nodes")["items"]))
        command = [*base, "--name", "twice", "--data", str(tmp_path / "twice")]
        again = subprocess.run(command, env=cluster.env, capture_output=True, text=True, timeout=30)
        assert again.returncode == 6 and "token" in again.stderr
    finally:
        first.terminate()
        first.wait(20)


def pem_of(kind, base64):
    return "\n".join(
        [f"-----BEGIN {kind}-----", *(base64[at : at + 64] for at in range(0, len(base64), 64)), f"-----END {kind}-----\n"]
    )


def test_the_certificate_of_a_run_opens_neither_head_nor_agent(cluster, tmp_path):
    file = tmp_path / "channel"
    job = write_job(tmp_path, "channel", ["sh", "-c", f'printf %s "$RTRAIN_CHANNEL" > {file}'])
    cluster.rtrain("submit", job)
    cluster.wait_state("channel", "SUCCEEDED")
    certificate, _, key = file.read_text().partition(".")
    run = {"certificate": pem_of("CERTIFICATE", certificate), "private_key": pem_of("PRIVATE KEY", key)}
    node = cluster.json("nodes")["items"][0]
    for port, path in ((cluster.port, "/v1/storage/?list=1"), (cluster.port, "/v1/nodes"), (node["port"], "/v1/probe")):
        with pytest.raises(OSError, match="(?i)unknown ca|certificate"):
            call(port, "GET", path, identity=run)
    own = identity_of(cluster.folder / "node-1")
    assert call(node["port"], "GET", "/v1/probe", identity=own)[0] == 200  # the calls above reach the agent, too


def test_a_node_that_left_is_a_stranger_with_its_old_certificate(cluster, tmp_path):
    token = cluster.json("token", "create", "--role", "node")["token"]
    data = tmp_path / "gone"
    command = [RTRAIN, "node", "join", f"127.0.0.1:{cluster.port}", "--token", token, "--peer-port", "0",
               "--name", "gone", "--data", str(data), "--allow-root-workers"]  # fmt: skip
    agent = subprocess.Popen(command, env=cluster.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    blob = "/v1/blobs/" + hashlib.sha256(b"stolen").hexdigest()
    attempts = [
        ("GET", "/v1/storage/?list=1", None),
        ("PUT", "/v1/storage/gone/file", b"stolen"),
        ("GET", "/v1/storage/gone/file", None),
        ("PUT", blob, b"stolen"),
        ("GET", blob, None),
        ("DELETE", "/v1/storage/gone/file", None),
    ]
    try:
        wait_for("the node", lambda: any(n["node"] == "gone" for n in cluster.json("nodes")["items"]))
        kept = identity_of(data)
        for method, path, body in attempts:  # the node has no run, so its certificate is accepted but gives access to nothing
            status, text = call(cluster.port, method, path, body=body, identity=kept)
            assert status in (403, 404), f"{method} {path} answered {status} {text}"
        cluster.rtrain("node", "leave", "gone", "--yes")
        renewal = ("POST", "/v1/certificate", json.dumps({"request": "x"}))
        for method, path, body in [*attempts, renewal, ("GET", "/v1/agents", None)]:
            status, text = call(cluster.port, method, path, body=body, identity=kept)
            assert status == 401 and b"has left" in text, f"{method} {path} answered {status} {text}"
    finally:
        agent.terminate()
        agent.wait(20)


def test_a_node_that_was_sent_away_elsewhere_joins_again_from_its_old_data(cluster, tmp_path):
    def start():
        token = cluster.json("token", "create", "--role", "node")["token"]
        command = [RTRAIN, "node", "join", f"127.0.0.1:{cluster.port}", "--token", token, "--peer-port", "0",
                   "--name", "again", "--data", str(tmp_path / "again"), "--allow-root-workers"]  # fmt: skip
        return subprocess.Popen(command, env=cluster.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ready():
        return any(n["node"] == "again" and n["state"] == "READY" for n in cluster.json("nodes")["items"])

    agent = start()
    try:
        wait_for("the node", ready)
        cluster.rtrain("node", "leave", "again", "--data", tmp_path / "elsewhere", "--yes")
        wait_for("the node to be gone", lambda: not ready())
        agent.terminate()
        agent.wait(20)
        certificate = identity_of(tmp_path / "again")["certificate"]
        agent = start()
        wait_for("the node to be back", ready)
        renewed = identity_of(tmp_path / "again")["certificate"]
        assert renewed != certificate
        agent.terminate()
        agent.wait(20)
        agent = start()  # a node with an identity keeps it, whatever token is given
        wait_for("the agent", lambda: (tmp_path / "again" / "agent.pid").exists())
        assert identity_of(tmp_path / "again")["certificate"] == renewed
    finally:
        agent.terminate()
        agent.wait(20)


def test_a_join_with_a_wrong_fingerprint_sends_no_secret(cluster, tmp_path):
    token = cluster.json("token", "create", "--role", "node")["token"]
    kind, fingerprint, ident, secret = token.split(".")
    wrong = ".".join([kind, "0" * len(fingerprint), ident, secret])
    command = [
        RTRAIN,
        "node",
        "join",
        f"127.0.0.1:{cluster.port}",
        "--token",
        wrong,
        "--name",
        "evil",
        "--data",
        str(tmp_path / "evil"),
    ]
    done = subprocess.run(command, env=cluster.env, capture_output=True, text=True, timeout=30)
    assert done.returncode == 6 and "fingerprint" in done.stderr
    assert secret not in (cluster.folder / "head.log").read_text()
    assert not (tmp_path / "evil" / "identity" / "node.json").exists()
    # The token was never sent, so it can still be used once.
    command[command.index(wrong)] = token
    agent = subprocess.Popen([*command, "--peer-port", "0", "--allow-root-workers"], env=cluster.env, stderr=subprocess.DEVNULL)
    try:
        wait_for("the node", lambda: any(n["node"] == "evil" for n in cluster.json("nodes")["items"]))
    finally:
        agent.terminate()
        agent.wait(20)


def test_an_agent_s_port_talks_only_to_nodes_of_its_cluster(cluster, tmp_path):
    port = next(n["port"] for n in cluster.json("nodes")["items"] if n["node"] == "node-1")
    ours = identity_of(cluster.folder / "node-1")
    other = LocalCluster(tmp_path / "other", nodes=1)
    other.stop()
    theirs = identity_of(other.folder / "node-1")  # the same node name, signed by another CA
    # The test combines our public certificate with a foreign key.
    mixed = {"private_key": theirs["private_key"], "certificate": theirs["certificate"] + ours["certificate"]}
    for identity in (None, theirs, mixed):
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            call(port, "GET", "/v1/probe", identity=identity)
    assert 200 <= call(port, "GET", "/v1/probe", identity=ours)[0] < 500  # the port serves a valid identity


def test_a_head_on_all_addresses_is_asked_for_by_name_only(cluster, tmp_path):
    facts = cluster.json("status")
    assert facts["address"].startswith("127.0.0.1")
    done = cluster.run("head", "start", "--no-auth", "--port", str(free_port()), "--data", str(tmp_path / "open"))
    assert done.returncode == 2, "there is no flag that turns authentication off"
