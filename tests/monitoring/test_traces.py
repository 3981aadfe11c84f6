"""Decodes the traces of a run, which a real head sends, by OpenTelemetry's own types: a tree of spans that agrees with the
run's attempts. An unreachable endpoint only increases a counter.
"""

import base64
import contextlib
import datetime
import http.server
import json
import pathlib
import socket
import threading
import time

import pytest
from google.protobuf import json_format
from head_api import Api
from jobs_on_disk import write_job
from local_cluster import LocalCluster, wait_for
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

JOB = pathlib.Path(__file__).resolve().parent / "jobs" / "curves.py"
SECRET = "a-token-of-the-collector"


class Collector:
    """Receives spans; answers the first requests with `refusals`."""

    def __init__(self, refusals=()):
        self.bodies, self.headers, self.refusals = [], [], list(refusals)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status = outer.refusals.pop(0) if outer.refusals else 200
                if status == 200:
                    outer.headers.append((self.path, dict(self.headers)))
                    outer.bodies.append(body)
                self.send_response(status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def requests(self):
        return [decoded(body) for body in list(self.bodies)]

    def spans(self):
        """Returns the spans by id, as a span may be sent twice."""
        return {
            span.span_id: span
            for request in self.requests()
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }

    def named(self, name):
        return sorted((span for span in self.spans().values() if span.name == name), key=lambda span: span.start_time_unix_nano)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def decoded(body):
    """Decodes a request. The two formats differ only in bytes: Protobuf's JSON has base64, OTLP has hexadecimal ids."""
    message = json.loads(body)
    for resource in message["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        assert span[name] == span[name].lower()
                        span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return json_format.ParseDict(message, ExportTraceServiceRequest())  # an unknown field is an error


@contextlib.contextmanager
def a_cluster(folder, monkeypatch, endpoint):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{SECRET}")
    cluster = LocalCluster(folder, nodes=1, resources="CPU=2")
    try:
        yield cluster
    finally:
        cluster.stop()


def submit_curves(cluster, folder, name="curves"):
    (folder / "runs").mkdir(exist_ok=True)
    cluster.rtrain(
        "submit",
        write_job(
            folder, name, ["python", str(JOB), "20", "30", "60"], env={"JOBS_SECRET": "nobody-may-see-this"},
            failure={"max_failures": 1, "backoff": "100ms..1s"}, storage_path=str(folder / "runs"),
        ),
    )  # fmt: skip
    cluster.wait_state(name, "SUCCEEDED")


def seconds(text):
    return datetime.datetime.fromisoformat(text).timestamp()


def times(span):
    return span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9


def values(span):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def ids_are_valid(spans):
    assert {len(span.trace_id) for span in spans.values()} == {16}
    assert {len(id) for id in spans} == {8}
    assert not any(id == bytes(8) for id in spans)
    roots = [span for span in spans.values() if not span.parent_span_id]
    assert [span.name for span in roots] == ["run"]
    for span in spans.values():
        assert span.trace_id == roots[0].trace_id
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        if span.parent_span_id:
            parent = spans[span.parent_span_id]
            assert parent.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= parent.end_time_unix_nano


def test_a_runs_life_is_a_tree_of_spans_that_agrees_with_its_attempts(tmp_path, monkeypatch):
    collector = Collector(refusals=[503])
    try:
        with a_cluster(tmp_path / "cluster", monkeypatch, collector.url) as cluster:
            submit_curves(cluster, tmp_path)
            (run,) = wait_for("the run's span", lambda: collector.named("run"), 60)
            facts = cluster.json("describe", "curves")
            attempts = sorted(Api(cluster).get("/v1/runs/curves/attempts")["items"], key=lambda one: one["number"])
            log = (cluster.folder / "head.log").read_text()
        spans = collector.spans()
        ids_are_valid(spans)
        names = sorted(span.name for span in spans.values())
        assert names == sorted(["run", "submit", "restore", *2 * ["queue", "attempt", "prepare", "start", "first_report"]])
        assert times(run) == pytest.approx((seconds(facts["submitted"]), seconds(facts["ended"])), abs=0.01)
        assert values(run)["rtrain.run_id"] == facts["run_id"]
        assert (values(run)["rtrain.state"], values(run)["rtrain.attempts"]) == ("SUCCEEDED", 2)
        for attempt, whole, prepare, start, first in zip(
            attempts, *(collector.named(name) for name in ("attempt", "prepare", "start", "first_report")), strict=True
        ):
            assert times(whole) == pytest.approx((seconds(attempt["placed"]), seconds(attempt["ended"])), abs=0.01)
            assert {prepare.parent_span_id, start.parent_span_id, first.parent_span_id} == {whole.span_id}
            assert times(prepare)[0] == times(whole)[0]
            assert times(prepare)[1] == times(start)[0]
            assert times(start)[1] == times(first)[0] == pytest.approx(seconds(attempt["started"]), abs=0.01)
            assert values(whole)["rtrain.attempt"] == attempt["number"]
        failed, went_well = collector.named("attempt")
        assert (failed.status.code, went_well.status.code) == (Status.STATUS_CODE_ERROR, Status.STATUS_CODE_OK)
        (restore,) = collector.named("restore")
        assert spans[restore.parent_span_id].parent_span_id == went_well.span_id
        assert values(restore)["rtrain.checkpoint"].startswith("checkpoint_")
        assert times(collector.named("queue")[1])[0] == times(failed)[1]
        path, headers = collector.headers[0]
        assert (path, headers["content-type"], headers["authorization"]) == ("/v1/traces", "application/json", f"Bearer {SECRET}")
        sent = b"".join(collector.bodies)
        assert b"nobody-may-see-this" not in sent
        assert str(JOB).encode() not in sent
        assert SECRET not in log
        resource = {one.key: one.value.string_value for one in collector.requests()[0].resource_spans[0].resource.attributes}
        assert resource["service.name"] == "rtrain-head"
    finally:
        collector.close()


def dropped(cluster):
    lines = Api(cluster, "metrics").text("/metrics").splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith('rtrain_trace_spans_total{outcome="dropped"}'))


def test_an_endpoint_that_swallows_everything_holds_nobody_up(tmp_path, monkeypatch):
    """It takes connections and never answers."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        a_cluster(tmp_path / "cluster", monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}") as cluster,
    ):
        submit_curves(cluster, tmp_path)
        begin = time.monotonic()
        cluster.daemons["head"].terminate()
        assert cluster.daemons.pop("head").wait(30) == 0
        assert time.monotonic() - begin < 15
        assert SECRET not in (cluster.folder / "head.log").read_text()


def test_what_a_dead_endpoint_does_not_take_is_counted_and_told_of_once(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://user:{SECRET}@127.0.0.1:{taken.getsockname()[1]}"
    with a_cluster(tmp_path / "cluster", monkeypatch, address) as cluster:
        submit_curves(cluster, tmp_path)
        log = cluster.folder / "head.log"
        wait_for("the spans to be dropped", lambda: "are dropped" in log.read_text(), 60)
        submit_curves(cluster, tmp_path, "again")
        wait_for("two runs' spans to be dropped", lambda: dropped(cluster) >= 2 * 13, 60)
        lines = [line for line in log.read_text().splitlines() if "traces" in line]
        assert len(lines) == 1
        assert SECRET not in lines[0]
