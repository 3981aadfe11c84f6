"""Tests a plain DataLoader on a real cluster: the global batches stay the same although a rank is killed in mid-epoch and
the run is resized twice.
"""

import json

import pytest
import torch
from jobs_on_disk import JOBS, write_job
from local_cluster import LocalCluster, wait_for


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "c", nodes=1, resources="CPU=4")
    yield made
    made.stop()


def delivered(folder):
    """Returns the rows of each step, of all ranks. If attempts repeat a step, the last attempt counts."""
    attempts = {}
    for path in folder.glob("*.jsonl"):
        attempt = int(path.name.partition("-")[0])
        for line in path.read_text().splitlines():
            step = json.loads(line)
            attempts.setdefault(attempt, {}).setdefault((step["epoch"], step["step"]), []).extend(step["rows"])
    steps = {}
    for _, taken in sorted(attempts.items()):
        begun = min(taken)
        steps = {key: rows for key, rows in steps.items() if key < begun} | taken
    return [sorted(rows) for _, rows in sorted(steps.items())]


def newest(cluster):
    reports = cluster.json("metrics", "plain")["items"]
    return max((report["metrics"]["step"] for report in reports), default=0)


def test_a_kill_and_two_resizes_in_mid_epoch_change_no_batch(cluster, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    failure, env = {"max_failures": 1, "backoff": "100ms..1s"}, {"OMP_NUM_THREADS": "1"}
    entrypoint = ["python", str(JOBS / "plain_loader.py"), str(folder)]
    cluster.rtrain("submit", write_job(tmp_path, "plain", entrypoint, 2, failure=failure, env=env))
    for size, step in ((4, 14), (1, 24)):
        wait_for(f"step {step}", lambda upto=step: newest(cluster) >= upto, 240)
        cluster.rtrain("resize", "plain", size, "--wait")
    cluster.wait_state("plain", "SUCCEEDED", "FAILED", seconds=300)
    facts = cluster.json("describe", "plain")
    assert facts["state"] == "SUCCEEDED", cluster.rtrain("logs", "plain", "--rank", "all")
    assert [attempt["world_size"] for attempt in facts["attempt_list"]] == [2, 2, 4, 1]
    expected = []
    for epoch in range(3):
        order = torch.randperm(92, generator=torch.Generator().manual_seed(epoch)).tolist()
        expected += [sorted(order[start : start + 8]) for start in range(0, 92, 8)]
    assert delivered(folder) == expected
