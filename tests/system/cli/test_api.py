"""Tests /openapi.json: requests every route of a live head and validates each response against its schema."""

import gzip
import hashlib
import http.client
import json
import re
import ssl

import jsonschema
import pytest
from jobs_on_disk import ranks_job
from local_cluster import LocalCluster

SOCKETS_AND_TEXT = {("get", "/v1/agents"), ("get", "/metrics"), ("get", "/openapi.json")}
ASKED_ELSEWHERE = {("post", "/v1/certificate"), ("post", "/v1/join")}  # need a signing request; the unit tests cover them


def closed(schema):
    """Returns the schema without room for fields that it does not name."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(value) for name, value in schema.items()}
    named = isinstance(inner.get("properties"), dict) and inner.get("type") == "object"
    return {**inner, "additionalProperties": False} if named else inner


class Api:
    """Sends requests and records their routes. Validates every JSON response against the description."""

    def __init__(self, cluster):
        self.port = cluster.port
        self.token = cluster.json("token", "create", "--role", "admin", "--user", "root")["token"]
        self.asked = set()
        self.page = json.loads(self.call("GET", "/openapi.json")[2])

    def call(self, method, target, body=None, headers=None):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=ssl._create_unverified_context(), timeout=30)
        connection.request(method, target, body=body, headers={"Authorization": f"Bearer {self.token}", **(headers or {})})
        answer = connection.getresponse()
        content = answer.headers.get("content-type", "").split(";")[0]
        text = answer.read()
        self.headers = answer.headers
        connection.close()
        return answer.status, content, text

    def described(self, method, path):
        for pattern, methods in self.page["paths"].items():
            expression = re.sub(r"\\\{path\\\}", ".*", re.escape(pattern))
            expression = re.sub(r"\\\{[a-z0-9]+\\\}", "[^/]+", expression)
            if re.fullmatch(expression, path) and method.lower() in methods:
                return pattern, methods[method.lower()]
        raise AssertionError(f"{method} {path} is not described")

    def validate(self, value, schema):
        """Every field of an answer has to be described too."""
        whole = {**schema, "components": self.page["components"]}
        if isinstance(value, dict):
            value = {name: field for name, field in value.items() if name != "schema_version"}
        jsonschema.validate(value, closed(whole), jsonschema.Draft202012Validator)

    def check(self, method, target, body=None, headers=None, status=None):
        pattern, operation = self.described(method, target.split("?")[0])
        self.asked.add((method.lower(), pattern))
        code, content, text = self.call(
            method, target, body if body is None or isinstance(body, bytes) else json.dumps(body), headers
        )
        if status:
            assert code == status, text
        else:
            assert str(code) in operation["responses"], f"{method} {target}: {code} {text}"
        described = operation["responses"].get(str(code)) or operation["responses"][f"{code // 100}XX"]
        kinds = described.get("content", {})
        if method != "HEAD" and kinds:
            assert content in kinds, f"{method} {target} answered {content}, described are {list(kinds)}"
        schema = kinds.get(content, {}).get("schema")
        lines = [text]
        if content == "application/jsonl":
            lines = text.splitlines()
        if content == "text/event-stream":
            lines = [line[6:] for line in text.splitlines() if line.startswith(b'data: {"')]
        for line in lines if schema else []:
            # The final event of the stream contains the run instead.
            if content != "text/event-stream" or b'"state"' not in line:
                self.validate(json.loads(line), schema)
        return json.loads(text) if content == "application/json" and text else text


def check_page(api):
    """Checks the page's files. A head that was built without node serves one file with that message."""
    html = api.check("GET", "/", headers={"Accept-Encoding": "gzip"}, status=200)
    if not html.startswith(b"\x1f\x8b"):
        assert b"scripts/bootstrap page" in html
        api.asked |= {("get", "/favicon.svg"), ("get", "/assets/{file}")}
        return
    script = re.search(rb"/assets/[^\"]+[.]js", gzip.decompress(html)).group().decode()
    for file in ("/favicon.svg", script):
        api.check("GET", file, headers={"Accept-Encoding": "gzip"}, status=200)


def check_session(api):
    """Signs in as a browser does, and signs out."""
    own = {"Content-Type": "application/json", "Origin": f"https://127.0.0.1:{api.port}", "Authorization": ""}
    csrf = api.check("POST", "/v1/session", {"token": api.token}, headers=own, status=201)["csrf"]
    cookie = api.headers["set-cookie"].split(";")[0]
    signed_in = {**own, "Cookie": cookie, "x-rtrain-csrf": csrf}
    assert api.check("GET", "/v1/session", headers=signed_in, status=200)["user"] == "root"
    api.check("DELETE", "/v1/session", headers=signed_in, status=200)
    assert api.call("GET", "/v1/session", headers=signed_in)[0] == 401


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("api") / "cluster", nodes=1, resources="CPU=2")
    yield made
    made.stop()


def test_the_page_is_json_schema(cluster):
    api = Api(cluster)
    for schema in api.page["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_answer_of_a_live_head_is_as_described(cluster, tmp_path):
    api = Api(cluster)
    spec = json.loads(ranks_job(tmp_path, "first", steps=2).read_text())
    spec["entrypoint"] = ["sh", "-c", "echo hello; exit 3"]
    cluster.rtrain("submit", ranks_job(tmp_path, "good", steps=2))
    cluster.wait_state("good", "SUCCEEDED", "FAILED")
    check_page(api)
    check_session(api)
    code = b"no archive, but bytes with a hash"
    sha256 = hashlib.sha256(code).hexdigest()
    api.check("PUT", f"/v1/blobs/{sha256}", code, status=201)
    api.check("HEAD", f"/v1/blobs/{sha256}")
    api.check("GET", f"/v1/blobs/{sha256}")
    run = api.check("POST", "/v1/runs", {"job": spec, "key": "k"}, status=201)
    assert api.check("POST", "/v1/runs", {"job": spec, "key": "k"}, status=200)["run_id"] == run["run_id"]
    cluster.wait_state("first", "FAILED")
    waiting = {**spec, "name": "waiting", "scaling": {"workers": 9}}
    api.check("POST", "/v1/runs", {"job": waiting})
    grid = {**spec, "name": "grid", "scaling": {"workers": 9}}
    members = api.check("POST", "/v1/runs", {"job": grid, "array": "1-2"}, status=201)["array_runs"]
    assert [member["name"] for member in members] == ["grid-1", "grid-2"]
    for member in members:
        api.check("POST", f"/v1/runs/{member['run_id']}/stop")
    for target in [
        "/healthz", "/v1/status", "/v1/runs?all=true", "/v1/runs?limit=1", "/v1/runs/good", "/v1/runs/first",
        "/v1/runs/good/attempts", "/v1/runs/first/attempts", "/v1/runs/first/logs", "/v1/runs/first/logs?follow=true",
        "/v1/runs/good/metrics", "/v1/runs/good/metrics?rank=all", "/v1/runs/good/metrics?follow=true",
        "/v1/runs/good/metrics/history", "/v1/runs/good/metrics/history?key=loss", "/v1/runs/good/ranks/0/history",
        "/v1/runs/good/ranks/0/history?key=cpu_cores",
        "/v1/runs/good/ranks/history?key=memory_bytes", "/v1/nodes/node-1/history", "/v1/nodes/node-1/history?key=memory_bytes",
        "/v1/runs/good/checkpoints", "/v1/runs/good/explain", "/v1/runs/waiting/explain", "/v1/nodes", "/v1/nodes/node-1",
        "/v1/status/history", "/v1/status/history?key=cpus_allocated&points=10",
        "/v1/timeline?from_ms=0&until_ms=4000000000000", "/v1/timeline?from_ms=0&until_ms=4000000000000&node=node-1,node-2",
        "/v1/queue", "/v1/demand", "/v1/queues", "/v1/events", "/v1/events?last=2", "/v1/tokens", "/v1/audit", "/v1/audit?last=2", "/v1/storage/good?list=true", "/v1/storage/good/run.json",
    ]:  # fmt: skip
        api.check("GET", target)
    held = api.check("GET", "/v1/timeline?from_ms=0&until_ms=4000000000000&node=node-1")
    assert {(one["name"], one["nodes"][0]["node"]) for one in held["items"]} == {("good", "node-1"), ("first", "node-1")}
    assert held["whole"] and all(one["ended"] for one in held["items"])
    assert api.check("GET", "/v1/timeline?from_ms=0&until_ms=1")["items"] == []
    assert "cpus_allocated" in api.check("GET", "/v1/status/history")["keys"]
    assert api.check("GET", "/v1/status")["health"]["memory_bytes"] > 1 << 20
    (first, *_) = api.check("GET", "/v1/runs/good/checkpoints")["items"]  # a run with checkpoints
    verified = {"checkpoints": [{"directory": first["directory"], "faults": faults} for faults in (3, 2, 0)]}
    # The last entry of a directory counts.
    assert api.check("POST", "/v1/runs/good/checkpoints/verified", verified)["recorded"] == 1
    assert api.check("GET", "/v1/runs/good/checkpoints")["items"][0]["faults"] == 0
    assert api.check("POST", "/v1/runs/good/checkpoints/verify", {"checkpoint": first["directory"]})["faults"] == 0
    assert api.check("GET", "/v1/queue")["items"], "a waiting run was meant"
    assert api.check("GET", "/v1/demand")["items"][0]["workers"] == 9
    api.check("PUT", "/v1/runs/good/values/note", b"text")
    assert api.check("GET", "/v1/runs/good/values/note") == b"text"
    api.check("GET", "/v1/runs/good/values")
    api.check("GET", "/v1/runs/good/files/run.json")
    assert api.check("GET", "/v1/runs/good/files/?list=true")["items"], "a run with files was meant"
    sleeper = {**spec, "name": "sleeper", "entrypoint": ["sleep", "1000"], "scaling": {"workers": "1..2"}}
    api.check("POST", "/v1/runs", {"job": sleeper}, status=201)
    cluster.wait_state("sleeper", "RUNNING")
    assert api.check("GET", "/v1/runs/sleeper/ranks")["items"], "a live rank was meant"
    api.check("POST", "/v1/runs/sleeper/checkpoint", {})
    api.check("POST", "/v1/runs/sleeper/stack?rank=0")
    api.check("POST", "/v1/runs/sleeper/resize", {"workers": 2})
    assert api.check("POST", "/v1/runs/sleeper/priority", {"priority": 80})["priority"] == 80
    pool = {**spec, "name": "pool", "entrypoint": ["sleep", "1000"]}
    api.check("POST", "/v1/runs", {"job": pool, "session": "driver", "yields": False}, status=201)
    assert api.check("POST", "/v1/runs/pool/yields", {"yields": True})["yields"] is True
    api.check("POST", "/v1/runs/pool/stop")
    api.check("POST", "/v1/runs/sleeper/stop")
    api.check("POST", "/v1/plan", {"job": spec})
    api.check("POST", "/v1/plan", {"job": waiting})
    api.check("POST", "/v1/nodes/node-1/drain", {"reason": "test"})
    api.check("POST", "/v1/nodes/node-1/undrain")
    assert api.check("POST", "/v1/nodes/node-1/quarantine", {"reason": "test"})["state"] == "QUARANTINED"
    api.check("POST", "/v1/nodes/node-1/undrain")
    assert api.check("POST", "/v1/runs/good/restore", {"checkpoint": first["directory"]}, status=201)["name"] == "good"
    token = api.check("POST", "/v1/tokens", {"role": "viewer", "user": "eve"})
    api.check("DELETE", f"/v1/tokens/{token['id']}")
    kept = api.check("GET", "/v1/quotas/eve")
    assert api.check("PUT", "/v1/quotas/eve", {"memory": 1 << 20})["limit"]["memory"] == 1 << 20 != kept["limit"]["memory"]
    assert api.check("PUT", "/v1/quotas/eve", {"streams": 7})["streams_limit"] == 7 != kept["streams_limit"]
    api.check("PUT", "/v1/storage/notes/a.txt", b"text")
    api.check("DELETE", "/v1/storage/notes?tree=true")
    api.check("PUT", "/v1/queues/lab", {"share": 2, "quota": {"CPU": "8"}, "borrow": False, "user_runs": 3, "user_gpus": 4})
    api.check("PUT", "/v1/queues/lab", {"gpu_hours": 10, "user_gpu_hours_of": {"ana": 2}, "budget_window": "7d"})
    api.check("DELETE", "/v1/queues/lab")
    api.check("PUT", "/v1/queues", {"text": "version: 1\nqueues: {default: {}}"})
    api.check("GET", "/v1/report?from_ms=0&until_ms=4000000000000&by=run")
    api.check("POST", "/v1/head/backup", {"file": str(tmp_path / "backup.db")})
    sealed = {"file": str(tmp_path / "sealed"), "passphrase": "a long passphrase", "logs": False, "files": True}
    api.check("POST", "/v1/head/backup", sealed)
    api.check("POST", "/v1/runs/waiting/stop")
    api.check("DELETE", "/v1/runs/first?dry_run=true")
    api.check("DELETE", "/v1/runs/first?files=true")
    for target in [
        "/v1/runs/nobody",
        "/v1/nodes/nobody",
        "/v1/runs?limit=0",
        "/v1/runs/good/metrics?rank=x",
        "/v1/timeline?from_ms=2&until_ms=1",
    ]:
        code, content, text = api.call("GET", target)
        assert code >= 400 and content == "application/json"
        api.validate(json.loads(text), {"$ref": "#/components/schemas/Error"})
    api.check("POST", "/v1/nodes/node-1/leave")
    api.check("POST", "/v1/head/stop")
    described = {(method, path) for path, methods in api.page["paths"].items() for method in methods}
    assert described - api.asked == SOCKETS_AND_TEXT | ASKED_ELSEWHERE
