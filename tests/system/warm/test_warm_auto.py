"""Tests --warm=auto: forked from the second run on, off without it and by --no-warm. A refusal is reported once."""

import pytest
from jobs_on_disk import write_job
from local_cluster import LocalCluster
from test_warm_runs import ENDS, job, made_template, notices


class AutomaticCluster(LocalCluster):
    """Its agents get the memory, too, since a machine of less than 5 GiB makes no template."""

    warm_flags = ("--warm=auto", "--warm-memory", "1GiB")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = AutomaticCluster(tmp_path_factory.mktemp("auto") / "cluster", nodes=1, resources="CPU=4,memory=1Gi")
    yield made
    made.stop()


def test_the_second_run_is_forked(cluster, tmp_path):
    made_template(cluster, tmp_path, "first", env={"COLOUR": "default"})
    cluster.rtrain("submit", job(tmp_path, "second", ENDS, env={"COLOUR": "default"}))
    cluster.wait_state("second", "SUCCEEDED")
    assert notices(cluster, "first") == ["node-1: rank 0: a plain start: its template is not made yet"]
    assert notices(cluster, "second") == ["node-1: rank 0: forked from a warm template"]
    assert cluster.json("nodes")["items"][0]["facts"]["warm_starts"] == "on: templates may take 1024 MiB"


def test_a_run_that_cannot_be_forked_says_so_once(cluster, tmp_path):
    fields = {"failure": {"max_failures": 2, "backoff": "100ms..1s"}}
    cluster.rtrain("submit", write_job(tmp_path, "refused", ["sh", "-c", "exit 1"], **fields))
    cluster.wait_state("refused", "FAILED")
    assert cluster.json("describe", "refused")["attempts"] == 3
    assert notices(cluster, "refused") == ["node-1: rank 0: a plain start: its program is not python"]
    assert "a plain start: its program is not python" in cluster.rtrain("describe", "refused")


@pytest.mark.parametrize("flags", [("--no-warm",), ("--warm=off",), ()])
def test_off_starts_each_worker_plainly_without_a_notice(tmp_path, flags):
    class PlainCluster(LocalCluster):
        warm_flags = flags

    made = PlainCluster(tmp_path / "c", nodes=1, resources="CPU=1")
    try:
        made.rtrain("submit", job(tmp_path, "plain", ENDS))
        made.wait_state("plain", "SUCCEEDED")
        assert notices(made, "plain") == []
        assert made.json("nodes")["items"][0]["facts"]["warm_starts"] == "off"
        assert "warm" not in (made.folder / "node-1.log").read_text()
    finally:
        made.stop()


def test_a_node_with_little_memory_makes_no_template_and_says_why(tmp_path):
    class SmallCluster(LocalCluster):
        warm_flags = ("--warm=auto",)

    made = SmallCluster(tmp_path / "c", nodes=1, resources="CPU=1,memory=2Gi")
    try:
        fact = made.json("nodes")["items"][0]["facts"]["warm_starts"]
        assert fact.startswith("off: the templates' share of this node's memory, 204 MiB, is too small for one template")
        assert "warm starts are off: " in (made.folder / "node-1.log").read_text()
    finally:
        made.stop()
