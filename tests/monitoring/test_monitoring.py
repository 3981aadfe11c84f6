"""Tests that Debian's Prometheus scrapes a real head over TLS with the example configuration and a token for metrics only.
Every expression of every dashboard returns series, and every alert has a runbook. tests/gpu/stand_in replaces GPUs.
"""

import contextlib
import json
import math
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest
import yaml
from gpu_check import stand_in
from jobs_on_disk import ranks_job, write_job
from local_cluster import ROOT, LocalCluster, free_port, wait_for
from small_disk import fill, small_disk

PROMETHEUS = ROOT / "configs" / "prometheus"
JOBS = pathlib.Path(__file__).resolve().parent / "jobs"
DASHBOARDS = sorted((ROOT / "configs" / "grafana").glob("*.json"))
UUIDS = [f"GPU-57a4d140-0000-0000-0000-{index:012}" for index in range(2)]
STEP_BYTES = 1 << 20  # jobs/monitored.py

needs_prometheus = pytest.mark.skipif(not shutil.which("prometheus"), reason="needs Debian's package prometheus")


class Prometheus:
    def __init__(self, folder, configuration):
        folder.mkdir()
        (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        self.port = free_port()
        self.log = folder / "log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn",
                ],
                stdout=log, stderr=log,
            )  # fmt: skip

    def get(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)["data"]

    def values(self, expression):
        """Returns the samples of an instant query as (labels, number), without NaN."""
        samples = [(one["metric"], float(one["value"][1])) for one in self.get("query", query=expression)["result"]]
        return [(labels, value) for labels, value in samples if not math.isnan(value)]

    def is_up(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            return [value for _, value in self.values("up")] == [1]
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def configured(cluster, token_file):
    """Returns configs/prometheus/prometheus.yml with a user's values and a shorter interval."""
    configuration = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["rule_files"] = [str(PROMETHEUS / name) for name in configuration["rule_files"]]
    (scrape,) = configuration["scrape_configs"]
    scrape["authorization"]["credentials_file"] = str(token_file)
    scrape["tls_config"]["ca_file"] = str(cluster.folder / "head" / "ca.crt")
    scrape["static_configs"] = [{"targets": [cluster.head_address()]}]
    return configuration


def expressions():
    """Yields (dashboard, panel, expression) of every panel."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                yield path.stem, panel["title"], target["expr"]


def filled_in(expression, run_id):
    """Returns the query of a user who has chosen that run and all nodes."""
    return expression.replace("$run_id", run_id).replace("$node", ".+").replace("$__rate_interval", "15s")


def status_of(cluster, token, path):
    context = ssl.create_default_context(cafile=cluster.folder / "head" / "ca.crt")
    context.check_hostname = False  # the certificate's name is rtrain-head at any address
    request = urllib.request.Request(f"https://{cluster.head_address()}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, context=context, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Makes a driver with two GPUs; returns its folder."""
    for name, value in stand_in.make(tmp_path / "driver", 2, ROOT).items():
        monkeypatch.setenv(name, value)
    return tmp_path / "driver"


def give_gpus_facts(driver, foreign_pid):
    for uuid in UUIDS:
        (driver / f"{uuid}.utilization").write_text("73")
        (driver / f"{uuid}.corrected").write_text("5")
        (driver / f"{uuid}.uncorrected").write_text("1")
    (driver / f"{UUIDS[0]}.xids").write_text("48\n48\n")
    (driver / UUIDS[0]).mkdir(exist_ok=True)
    (driver / UUIDS[0] / str(foreign_pid)).write_text(str(3 << 30))


def submit_monitored(cluster, folder):
    storage = folder / "runs"
    storage.mkdir()
    job = write_job(
        folder, "monitored", ["python", str(JOBS / "monitored.py"), str(folder)], workers=2,
        scaling={"use_gpu": True, "resources_per_worker": {"CPU": 1, "GPU": 1}},
        failure={"max_failures": 5, "backoff": "100ms..1s"}, storage_path=str(storage),
    )  # fmt: skip
    return cluster.json("submit", job)["run_id"]


def submit_to_full_disk(cluster, folder, disk):
    """Submits a run whose checkpoints can no longer be written."""
    run_id = cluster.json("submit", ranks_job(folder, "full", 100_000, 0.1, storage_path=str(disk)))["run_id"]
    wait_for("a checkpoint", lambda: cluster.json("checkpoints", "list", "full")["items"])
    with open(disk / "in-the-way", "wb", buffering=0) as file:
        fill(file)
    return run_id


@needs_prometheus
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
def test_prometheus_sees_a_cluster_over_tls_and_every_panel_shows_something(tmp_path, driver):
    cluster = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=4", pass_env="GPU_CHECK_STAND_IN")
    small = contextlib.ExitStack()
    foreign = subprocess.Popen(["tail", "-f", "/dev/null"])
    prometheus = None
    try:
        token = cluster.json("token", "create", "--role", "metrics", "--expires", "never")["token"]
        token_file = tmp_path / "token"
        token_file.write_text(token + "\n")
        paths = ["/metrics", "/v1/status", "/v1/runs", "/openapi.json", "/v1/tokens"]
        assert [status_of(cluster, token, path) for path in paths] == [200, 403, 403, 403, 403]
        prometheus = Prometheus(tmp_path / "prometheus", configured(cluster, token_file))
        wait_for("the first scrape", prometheus.is_up, 60)
        give_gpus_facts(driver, foreign.pid)
        run_id = submit_monitored(cluster, tmp_path)
        cluster.wait_state("monitored", "RUNNING")
        # More runs follow after this scrape.
        wait_for("a scrape with a run", lambda: prometheus.values("rtrain_queue_wait_seconds_count"), 60)
        cluster.rtrain("submit", write_job(tmp_path, "short", "true"), "-f")
        full = submit_to_full_disk(cluster, tmp_path, small.enter_context(small_disk(tmp_path / "small", "16m")))
        cluster.run("submit", write_job(tmp_path, "waits", "true", scaling={"resources_per_worker": {"GPU": 2}}))
        every_panel_shows_something(prometheus, [run_id, full])
        numbers_are_those_of_the_machine(prometheus, run_id)
        rules_are_healthy(prometheus)
        lost_gpu_is_in_metrics(prometheus, driver)
    finally:
        if prometheus:
            prometheus.stop()
        foreign.kill()
        foreign.wait()
        cluster.stop()
        small.close()


def every_panel_shows_something(prometheus, run_ids):
    """Checks that each panel shows a series for one of the runs at least."""
    left = set(expressions())
    assert len(left) > 60

    def all_found():
        for one in sorted(left):
            if any(prometheus.values(filled_in(one[2], run_id)) for run_id in run_ids):
                left.discard(one)
        return not left

    try:
        wait_for("series", all_found, 180, pause=1)
    except Exception as late:
        raise AssertionError(f"no series for {sorted(left)}; {late}") from None


def numbers_are_those_of_the_machine(prometheus, run_id):
    """Compares the values in Prometheus with those of the job and the driver."""

    def value(expression):
        ((_, number),) = prometheus.values(expression)
        return number

    sent_bytes = 'rtrain_worker_network_transmit_bytes_total{rank="1"}'  # a scrape may lack it while the attempt begins
    wait_for("traffic of rank 1", lambda: any(number > 20 * STEP_BYTES for _, number in prometheus.values(sent_bytes)), 120)
    sent, received = (value(f'rtrain_worker_network_{way}_bytes_total{{rank="1"}}') for way in ("transmit", "receive"))
    # Each step of this attempt sends STEP_BYTES. The rank's library uses no TCP for messages to its agent.
    steps = value(f'rtrain_run_step{{run_id="{run_id}"}}')
    assert sent < 1.1 * (steps + 3) * STEP_BYTES and abs(sent - received) < 0.2 * sent
    on_disk = subprocess.run(["stat", "-f", "-c", "%T", str(prometheus.log)], capture_output=True, text=True, check=True).stdout
    if "tmpfs" not in on_disk:
        assert value('rtrain_worker_disk_written_bytes_total{rank="1"}') > 5 * STEP_BYTES
    assert value('rtrain_gpu_foreign_processes{gpu="0"}') == 1 and value('rtrain_gpu_foreign_processes{gpu="1"}') == 0
    assert value('rtrain_gpu_foreign_memory_bytes{gpu="0"}') == 3 << 30
    assert value('rtrain_gpu_memory_used_bytes{gpu="1"}') == 8 << 30
    assert value('rtrain_gpu_xid_events_total{gpu="0",xid="48"}') == 2
    assert value('rtrain_gpu_ecc_errors_total{gpu="1",kind="corrected"}') == 5
    assert value("rtrain_node_gpus_expected") == value("rtrain_node_gpus_seen") == 2
    assert value(f'rtrain_run_workers{{run_id="{run_id}"}}') == 2
    disk = os.statvfs(prometheus.log)
    assert value('rtrain_node_disk_size_bytes{place="data"}') == disk.f_frsize * disk.f_blocks


def rules_are_healthy(prometheus):
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert len(rules) >= 15
    assert {(rule["name"], rule["health"], rule.get("lastError", "")) for rule in rules} == {
        (rule["name"], "ok", "") for rule in rules
    }
    firing = {rule["name"] for rule in rules if rule["state"] == "firing"}
    assert "RtrainGpuXid" in firing and "RtrainCheckpointFailing" in firing and "RtrainNodeLost" not in firing


def lost_gpu_is_in_metrics(prometheus, driver):
    (driver / f"{UUIDS[1]}.xids").write_text("79\n")
    (driver / f"{UUIDS[1]}.lost").write_text("1")
    wait_for("one GPU", lambda: [value for _, value in prometheus.values("rtrain_node_gpus_seen")] == [1], 60)
    wait_for("its Xid", lambda: prometheus.values('rtrain_gpu_xid_events_total{gpu="1",xid="79"} == 1'), 60)
    assert not prometheus.values('rtrain_gpu_memory_total_bytes{gpu="1"}')

    def alerts():
        return {alert["labels"]["alertname"] for alert in prometheus.get("alerts")["alerts"]}

    wait_for("the alert", lambda: "RtrainGpuMissing" in alerts(), 30)


@needs_prometheus
def test_each_alert_tells_its_story_and_has_a_runbook():
    done = subprocess.run(["promtool", "test", "rules", "rules_test.yml"], cwd=PROMETHEUS, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rules = [rule for group in yaml.safe_load((PROMETHEUS / "rules.yml").read_text())["groups"] for rule in group["rules"]]
    tested = {test["alertname"] for story in yaml.safe_load((PROMETHEUS / "rules_test.yml").read_text())["tests"]
              for test in story["alert_rule_test"] if test["exp_alerts"]}  # fmt: skip
    assert {rule["alert"] for rule in rules} == tested
    for rule in rules:
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
        assert anchor in {re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-") for one in headings}, rule["alert"]


def test_dashboards_are_well_formed_and_name_metrics_that_there_are():
    names = set(re.findall(r'Description\{"(\w+)"', (ROOT / "daemon" / "metrics" / "names.cpp").read_text()))
    assert len(DASHBOARDS) == 3
    for path in DASHBOARDS:
        board = json.loads(path.read_text())
        identities = [panel["id"] for panel in board["panels"]]
        assert board["uid"] == path.stem and len(set(identities)) == len(identities)
        for name in re.findall(r"rtrain_(\w+)", path.read_text()):
            assert name in names or re.sub(r"_(bucket|sum|count)$", "", name) in names, name


@pytest.mark.skipif(os.geteuid() != 0, reason="an agent that is root")
def test_an_agent_that_is_root_opens_no_library_of_a_user(tmp_path, driver):
    tmp_path.chmod(0o755)
    shutil.chown(driver, "nobody")
    cluster = LocalCluster(tmp_path / "cluster", nodes=1)
    try:
        assert cluster.json("nodes")["items"][0]["gpus"] == 0
        opened = pathlib.Path(f"/proc/{cluster.daemons['node-1'].pid}/maps").read_text()
        assert str(driver) not in opened
    finally:
        cluster.stop()
