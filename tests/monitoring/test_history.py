"""Tests charts of a real head: its levels agree with all reports, despite a killed worker that repeats steps, a killed head,
and a damaged history. Also tests the stored usage of nodes and ranks.
"""

import os
import pathlib
import time

import pytest
from gpu_check import stand_in
from head_api import Api
from jobs_on_disk import write_job
from local_cluster import LocalCluster, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = pathlib.Path(__file__).resolve().parent / "jobs" / "curves.py"
CHECKPOINT_AT, DIES_AT, END = 1_900, 2_503, 6_000


@pytest.fixture
def cluster(tmp_path):
    cluster = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=2")
    yield cluster
    cluster.stop()


def reports_of(api, run):
    items, after = [], 0
    while page := api.get(f"/v1/runs/{run}/metrics?limit=1000&after={after}")["items"]:
        items += page
        after = page[-1]["position"]
    return items


def agrees(chart, reports, key, first, last, most):
    """Checks that each point agrees with all its reports, and that every report belongs to a point."""
    points, width = chart["points"], chart["reports_per_point"]
    assert 0 < len(points["position"]) <= most
    covered = set()
    for at, attempt, step, low, high in zip(
        *(points[name] for name in ("position", "attempt", "step", "min", "max")), strict=True
    ):
        end = min((one for one in points["position"] if one > at), default=at + width)
        assert at >= 1 and (end == at + width or (at, end) == (1, width))  # the first bucket would begin at 0
        stretch = reports[at - 1 : end - 1]
        covered.update(range(at, end))
        if at < first or end - 1 > last:
            continue  # buckets may reach over the edges
        values = [one["metrics"][key] for one in stretch]
        assert (low, high) == (min(values), max(values)), (at, width)
        assert (attempt, step) == (stretch[0]["attempt"], stretch[0]["index"])
    assert covered.issuperset(range(first, last + 1))


def looks_right(api, reports):
    total = len(reports)
    answer = api.get("/v1/runs/curves/metrics/history")
    assert (answer["keys"], answer["last"]) == (["first", "loss", "step"], total)
    for first, last, points in [(1, total, 200), (1, total, 2_000), (2_400, 2_700, 500), (100, 4_900, 150), (4_000, 4_003, 7)]:
        chart = api.get(f"/v1/runs/curves/metrics/history?key=loss&from={first}&to={last}&points={points}")
        agrees(chart, reports, "loss", first, last, points)
    flags = api.get("/v1/runs/curves/metrics/history?key=first&points=20")["points"]
    assert (flags["max"][0], flags["min"][-1]) == (1, 0)
    assert api.get("/v1/runs/curves/metrics/history?key=none")["points"]["min"] == []


def test_charts_follow_the_reports_through_kills_and_repeated_steps(cluster, tmp_path):
    job = write_job(
        tmp_path, "curves", ["python", str(JOB), str(CHECKPOINT_AT), str(DIES_AT), str(END)],
        failure={"max_failures": 1, "backoff": "100ms..1s"}, storage_path=str(tmp_path / "runs"),
    )  # fmt: skip
    (tmp_path / "runs").mkdir()
    cluster.rtrain("submit", job)
    api = Api(cluster)
    wait_for("the second attempt", lambda: (cluster.json("describe", "curves")["last_report"] or {}).get("attempt") == 2)
    assert api.get("/v1/runs/curves/metrics/history?key=loss")["last"] > 0
    cluster.kill("head")  # while buckets and reports are incomplete
    cluster.restart("head")
    cluster.wait_state("curves", "SUCCEEDED")
    reports = reports_of(api, "curves")
    assert [one["position"] for one in reports] == list(range(1, len(reports) + 1))
    assert len(reports) == DIES_AT + END - CHECKPOINT_AT
    looks_right(api, reports)
    cluster.kill("head")
    history = cluster.folder / "head" / "history.db"
    for suffix in ("-wal", "-shm"):
        history.with_name(history.name + suffix).unlink(missing_ok=True)
    history.write_bytes(b"torn" * 3_000)
    cluster.restart("head")
    looks_right(api, reports)
    refused = {"points=0": 400, "points=2001": 400, "from=x": 400, "from=5&to=4": 400}
    assert {query: api.status(f"/v1/runs/curves/metrics/history?key=loss&{query}") for query in refused} == refused
    assert api.status("/v1/runs/nothing/metrics/history?key=loss") == 404
    assert Api(cluster, "metrics").status("/v1/runs/curves/metrics/history?key=loss") == 403


def test_ranks_tell_what_the_gpus_do_that_they_hold(tmp_path, monkeypatch):
    driver = tmp_path / "driver"
    for name, value in stand_in.make(driver, 2, ROOT).items():
        monkeypatch.setenv(name, value)
    for index, percent in enumerate((73, 20)):
        uuid = f"GPU-57a4d140-0000-0000-0000-{index:012}"
        (driver / f"{uuid}.utilization").write_text(str(percent))
        (driver / uuid).mkdir()
        (driver / uuid / str(os.getpid())).write_text(str((index + 1) << 30))
    cluster = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=4", pass_env="GPU_CHECK_STAND_IN")
    try:
        api = Api(cluster)
        for name, gpus in (("one", 1), ("both", 2), ("none", 0)):
            wants = {"resources_per_worker": {"CPU": 1, "GPU": gpus} if gpus else {"CPU": 1}}
            cluster.rtrain("submit", write_job(tmp_path, name, ["sleep", "600"], scaling=wants))
            cluster.wait_state(name, "RUNNING")

            def rank(name=name):
                (item,) = api.get(f"/v1/runs/{name}/ranks")["items"]
                return item["silent_ms"] is not None and item

            item = wait_for("a heartbeat with the rank", rank, 60)
            if name == "one":
                whole = {(0.73, 1 << 30), (0.2, 2 << 30)}
                assert (item["gpu_utilization_ratio"], item["gpu_memory_bytes"]) in whole
            elif name == "both":
                assert (item["gpu_utilization_ratio"], item["gpu_memory_bytes"]) == (pytest.approx(0.465), 3 << 30)
            else:
                assert "gpu_utilization_ratio" not in item and "gpu_memory_bytes" not in item
            cluster.rtrain("stop", name)
            cluster.wait_state(name, "STOPPED")
    finally:
        cluster.stop()


def test_usage_of_nodes_and_ranks_is_kept_over_a_restart(cluster, tmp_path):
    cluster.rtrain(
        "submit", write_job(tmp_path, "busy", ["python", "-c", "from rtrain import train\nwhile True: train.report({'x': 1})"])
    )
    cluster.wait_state("busy", "RUNNING")
    api = Api(cluster)
    rates = {"cpu_cores", "network_received_bytes_per_second", "network_sent_bytes_per_second"}
    node = wait_for("rates of the node", lambda: rates <= set(keys := api.get("/v1/nodes/node-1/history")["keys"]) and keys, 60)
    assert "memory_bytes" in node
    path = "/v1/runs/busy/ranks/0/history"
    rank = wait_for("rates of the rank", lambda: "cpu_cores" in (keys := api.get(path)["keys"]) and keys, 60)
    assert "memory_bytes" in rank
    begin = int(time.time() * 1_000) - 600_000
    # Without a window, a response covers the day until now, so its points differ in each response.
    question = f"{path}?key=cpu_cores&from={begin}&to={begin + 3_600_000}"
    before = api.get(question)
    assert before["seconds_per_point"] % 16 == 0
    assert 0.05 < max(before["points"]["max"]) < 64
    used = api.get("/v1/nodes/node-1/history?key=memory_bytes")["points"]
    assert 0 < used["min"][0] <= used["max"][0]
    cluster.daemons["head"].terminate()
    assert cluster.daemons.pop("head").wait(30) == 0
    cluster.restart("head")
    after = api.get(question)["points"]
    assert after["time_ms"][0] == before["points"]["time_ms"][0]
    assert after["max"][0] >= before["points"]["max"][0]
    assert api.status("/v1/runs/busy/ranks/1/history") == 404
    assert api.status("/v1/nodes/nowhere/history") == 404
    cluster.rtrain("stop", "busy")
    cluster.wait_state("busy", "STOPPED")
