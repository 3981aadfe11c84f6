"""Tests one user's runs against another user's requests on real daemons: no file is handed over or removed."""

import concurrent.futures
import hashlib
import http.client
import json
import os
import ssl
import threading
import time

import pytest
from local_cluster import LocalCluster, wait_for

WEIGHTS = "weights of ann"
SAVES = f"echo '{WEIGHTS}'"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("separation") / "cluster", nodes=1)
    yield made
    made.stop()


class Person:
    def __init__(self, cluster, user, role="user"):
        self.port = cluster.port
        made = cluster.json("token", "create", "--role", role, "--user", user)
        self.token, self.id = made["token"], made["id"]

    def open(self, method, target, body=None):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=ssl._create_unverified_context(), timeout=60)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body)
        connection.request(method, target, body=body, headers={"Authorization": f"Bearer {self.token}"})
        return connection, connection.getresponse()

    def call(self, method, target, body=None):
        connection, answer = self.open(method, target, body)
        text = answer.read()
        connection.close()
        return answer.status, text

    def submit(self, name, script, **fields):
        job = {"version": 1, "name": name, "entrypoint": ["sh", "-c", script], "scaling": {"workers": 1}}
        job |= fields.pop("job", {})
        status, text = self.call("POST", "/v1/runs", {"job": job, **fields})
        return status, json.loads(text)


@pytest.fixture(scope="module")
def people(cluster):
    return Person(cluster, "ann"), Person(cluster, "bob"), Person(cluster, "vic", "viewer")


@pytest.fixture(scope="module")
def anns_run(cluster, people):
    status, run = people[0].submit("anns", SAVES, job={"env": {"PASSWORD": "hunter2"}})
    assert status == 201, run
    cluster.wait_state("anns", "SUCCEEDED")
    return run


def test_nobody_goes_on_from_another_users_run(cluster, people, anns_run):
    _, bob, _ = people
    status, answer = bob.submit("anns", "cat */*", resume=True)
    assert status == 403 and "ann's" in answer["message"], answer
    status, text = bob.call("DELETE", "/v1/runs/anns?files=true")
    assert status == 403, text


def test_a_path_that_the_head_cannot_tell_is_judged_by_the_agent(cluster, people, tmp_path):
    ann, bob, _ = people
    runs, linked = tmp_path / "runs", tmp_path / "linked"
    runs.mkdir()
    linked.symlink_to(runs)
    assert ann.submit("told", SAVES, job={"storage_path": str(runs)})[0] == 201
    cluster.wait_state("told", "SUCCEEDED")
    end = runs / "told" / "attempts" / "000001" / "end.json"  # the node writes the file, and again with the head's reason
    wait_for("the head's words", lambda: end.exists() and "every rank ended with 0" in end.read_text(), seconds=60)
    wait_for("the result", (runs / "told" / "result.json").exists, seconds=60)
    before = {path: path.read_bytes() for path in (runs / "told").rglob("*.json")}
    status, run = bob.submit("told", "true", resume=True, job={"storage_path": str(linked)})
    assert status == 201, run
    cluster.wait_state(run["run_id"], "FAILED")
    assert "is ann's, and this one is bob's" in cluster.json("describe", run["run_id"])["reason"]
    assert bob.call("DELETE", f"/v1/runs/{run['run_id']}?files=true")[0] in (200, 403)
    assert {path: path.read_bytes() for path in (runs / "told").rglob("*.json")} == before
    status, run = Person(cluster, "root", "admin").submit("told", "true", resume=True, job={"storage_path": str(linked)})
    assert status == 201
    cluster.wait_state(run["run_id"], "SUCCEEDED")


def test_viewers_and_other_users_read_states_and_no_contents(people, anns_run):
    for person in people[1:]:
        for target in ("logs", "logs?follow=true", "checkpoints", "files/run.json", "values"):
            assert person.call("GET", f"/v1/runs/anns/{target}")[0] == 403, target
        for target in ("anns/run.json", "anns?list=1", "?list=1"):
            assert person.call("GET", f"/v1/storage/{target}")[0] == 403, target
        for target in ("", "/attempts", "/metrics", "/explain"):
            status, text = person.call("GET", f"/v1/runs/anns{target}")
            assert status == 200 and b"hunter2" not in text, target
    for target in ("runs/anns/logs", "runs/anns/checkpoints", "runs/anns/files/run.json", "storage/anns/run.json"):
        assert people[0].call("GET", f"/v1/{target}")[0] == 200, target
    assert b"hunter2" in people[0].call("GET", "/v1/runs/anns")[1]
    assert people[1].call("GET", "/v1/storage/nothing/run.json")[0] == 404


def test_a_hash_opens_nothing(people):
    ann, bob, _ = people
    code = b"the code of ann"
    sha256 = hashlib.sha256(code).hexdigest()
    blob = f"/v1/blobs/{sha256}"
    assert ann.call("PUT", blob, code)[0] == 201
    assert ann.call("GET", blob) == (200, code)
    assert bob.call("HEAD", blob)[0] == 404 and bob.call("GET", blob)[0] == 404
    for fields in ({"code_sha256": sha256}, {"job": {"env": {"RTRAIN_DRIVER_SHA256": sha256}}}):
        status, answer = bob.submit("thief", "cat *", **fields)
        assert status == 422 and "not uploaded" in json.dumps(answer["problems"]), answer
    assert bob.call("PUT", blob, b"something else")[0] == 422 and bob.call("HEAD", blob)[0] == 404
    assert bob.call("PUT", blob, code)[0] == 201 and bob.call("GET", blob) == (200, code)


def test_an_equal_submit_key_of_another_user_is_another_submission(cluster, people):
    ann, bob, _ = people
    assert ann.submit("gate", "sleep 600")[0] == 201  # occupies the node's only CPU, so that other runs wait
    cluster.wait_state("gate", "RUNNING")

    def submit(person, name, secret):
        job = {"secrets": ["API_KEY"]}
        return person.submit(name, 'echo "secret $API_KEY"', key="k", secrets={"API_KEY": secret}, job=job)

    (status, first), (other, second) = submit(ann, "own-1", "of-ann"), submit(bob, "own-2", "of-bob")
    assert (status, other) == (201, 201) and first["run_id"] != second["run_id"]
    status, again = submit(ann, "own-1", "of-ann")
    assert (status, again["run_id"]) == (200, first["run_id"])
    ann.call("POST", "/v1/runs/gate/stop", {"now": True})
    for person, name, secret in ((ann, "own-1", b"of-ann"), (bob, "own-2", b"of-bob")):
        cluster.wait_state(name, "SUCCEEDED")
        assert b"secret " + secret in person.call("GET", f"/v1/runs/{name}/logs")[1]


def test_a_name_that_is_exchanged_while_the_head_answers_leads_nowhere(cluster, people, tmp_path):
    """Swaps the `logs` folder of Ann's run, on a disk that the head sees, with a link to the head's own data while the head
    reads it.
    """
    ann = people[0]
    assert ann.submit("swap", "true", job={"storage_path": str(tmp_path)})[0] == 201
    cluster.wait_state("swap", "SUCCEEDED")
    run, data = tmp_path / "swap", cluster.folder / "head"
    (run / "code").mkdir(exist_ok=True)
    (run / "code" / "ca.key").write_text("nothing")
    (run / "other").symlink_to(data)
    key = (data / "ca.key").read_bytes()
    stop = threading.Event()

    def exchange():
        while not stop.is_set():
            os.rename(run / "code", run / "aside")
            os.rename(run / "other", run / "code")
            os.rename(run / "code", run / "other")
            os.rename(run / "aside", run / "code")

    def look(_):
        return ann.call("GET", "/v1/runs/swap/files/code/ca.key")

    swapping = threading.Thread(target=exchange)
    swapping.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(look, range(1500)))
    finally:
        stop.set()
        swapping.join()
    assert not [text for _, text in answers if text == key or b"PRIVATE KEY" in text]
    assert {status for status, _ in answers} <= {200, 403, 404}, {status for status, _ in answers}
    assert look(0) == (200, b"nothing")


def test_a_linked_run_directory_and_what_is_no_file_are_refused(cluster, people, tmp_path):
    ann = people[0]
    assert ann.submit("odd", "true", job={"storage_path": str(tmp_path)})[0] == 201
    cluster.wait_state("odd", "SUCCEEDED")
    run = tmp_path / "odd"
    (run / "code").mkdir(exist_ok=True)
    os.mkfifo(run / "code" / "fifo")
    (run / "code" / "link").symlink_to(cluster.folder / "head" / "ca.key")
    began = time.monotonic()
    assert ann.call("GET", "/v1/runs/odd/files/code/fifo")[0] == 404
    assert ann.call("GET", "/v1/runs/odd/files/code/link")[0] == 403
    assert time.monotonic() - began < 30
    listed = json.loads(ann.call("GET", "/v1/runs/odd/files/code?list=1")[1])["items"]
    assert not [one for one in listed if one["path"] in ("code/fifo", "code/link")]
    run.rename(tmp_path / "moved")
    (tmp_path / "odd").symlink_to(tmp_path / "moved")
    assert ann.call("GET", "/v1/runs/odd/files/run.json")[0] == 403


def test_a_storage_path_that_leads_to_another_users_directory_is_not_read_for_him(cluster, people, tmp_path):
    ann, bob, _ = people
    theirs, his, link = tmp_path / "theirs", tmp_path / "his", tmp_path / "link"
    theirs.mkdir()
    his.mkdir()
    link.symlink_to(his)
    assert ann.submit("same", "true", job={"storage_path": str(theirs)})[0] == 201
    cluster.wait_state("same", "SUCCEEDED")
    status, run = bob.submit("same", "true", job={"storage_path": str(link)})
    assert status == 201, run
    cluster.wait_state(run["run_id"], "SUCCEEDED")
    target = f"/v1/runs/{run['run_id']}/files/run.json"
    assert bob.call("GET", target)[0] == 200
    link.unlink()
    link.symlink_to(theirs)
    assert bob.call("GET", target)[0] == 403
    bob.call("DELETE", f"/v1/runs/{run['run_id']}?files=true")
    assert (theirs / "same" / "run.json").exists()


@pytest.mark.parametrize("how", ["revoked", "expired", "run"])
def test_what_a_token_follows_ends_with_the_token(cluster, people, how, tmp_path):
    admin = Person(cluster, "root", "admin")
    follower = Person(cluster, "ann")
    lasts_ms = 3000
    if how == "expired":
        _, text = admin.call("POST", "/v1/tokens", {"role": "user", "user": "ann", "expires_ms": lasts_ms})
        follower.token = json.loads(text)["token"]
    begun = time.monotonic()
    if how == "run":
        note = tmp_path / "token"
        assert people[0].submit("tells", f'echo -n "$RTRAIN_TOKEN" > {note}; sleep 3')[0] == 201
        cluster.wait_state("tells", "RUNNING")
        follower.token = wait_for("the token", lambda: note.exists() and note.read_text())
    connection, answer = follower.open("GET", "/v1/events?follow=true")
    assert answer.status == 200
    ended, ended_at = threading.Event(), []

    def drain():
        while answer.read1(65536):
            pass
        ended_at.append(time.monotonic())
        ended.set()

    threading.Thread(target=drain, daemon=True).start()
    if how == "revoked":
        assert admin.call("DELETE", f"/v1/tokens/{follower.id}")[0] == 200
    if how == "run":
        cluster.wait_state("tells", "SUCCEEDED")
    closed = begun + lasts_ms / 1000 if how == "expired" else time.monotonic()  # the token is invalid from here on
    assert ended.wait(lasts_ms / 1000 + 10)
    assert ended_at[0] - closed < 1
    if how == "expired":
        assert closed - ended_at[0] < 1  # the stream did not end early
    connection.close()


def test_who_is_known_and_may_not_is_403_and_a_stranger_401(cluster, people):
    ann, _, vic = people
    join = cluster.json("token", "create", "--role", "node")["token"]
    stranger, joiner = Person.__new__(Person), Person.__new__(Person)
    for one, token in ((stranger, "rtu1.abcdef.0123456789"), (joiner, join)):
        one.port, one.token = cluster.port, token
    blob = "/v1/blobs/" + "0" * 64
    for method, target, body in (("GET", "/v1/tokens", None), ("PUT", "/v1/storage/x/y", b"x"), ("POST", "/v1/head/stop", {})):
        assert ann.call(method, target, body)[0] == 403, target
        assert joiner.call(method, target, body)[0] == 403, target
        assert stranger.call(method, target, body)[0] == 401, target
    assert vic.call("PUT", blob, b"x")[0] == 403
