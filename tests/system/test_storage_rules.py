"""Who may use which storage path: the operator's rules."""

import json
import os
import pathlib
import sys

import pytest
from jobs_on_disk import ranks_job
from local_cluster import LocalCluster, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "s3"))
from started import KEY, S3Server, put_all


@pytest.fixture
def s3(monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    server = S3Server()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.stop()


class RuledCluster(LocalCluster):
    """Its agents are started with `--storage-rules`."""

    def __init__(self, folder, rules, nodes=1, resources="CPU=2"):
        self.rules = pathlib.Path(folder).parent / "rules.yaml"
        self.rules.write_text(json.dumps(rules))
        self.rules.chmod(0o600)
        super().__init__(folder, nodes=nodes, resources=resources)

    def command(self, name, *arguments):
        more = ("--storage-rules", self.rules) if arguments[:2] == ("node", "join") else ()
        return super().command(name, *arguments, *more)


def end_of(cluster, run):
    cluster.wait_state(run, "SUCCEEDED", "FAILED")
    return cluster.json("describe", run)


def asked_below(s3, prefix, key):
    return sorted(path for path, keys in s3.signers().items() if path.startswith(prefix) and key in keys)


def test_another_users_prefix_is_refused_before_anything_is_written_there(s3, tmp_path):
    put_all({"ben/theirs/result.json": "kept", "ben/theirs/run.json": "{}"})
    rules = {"rules": [{"users": ["*"], "allow": ["s3://runs/mine"]}, {"users": ["ben"], "allow": ["s3://runs/ben"]}]}
    cluster = RuledCluster(tmp_path / "cluster", rules)
    try:
        cluster.rtrain("submit", ranks_job(tmp_path, "theirs", 2, workers=1, storage_path="s3://runs/ben"))
        facts = end_of(cluster, "theirs")
        assert facts["state"] == "FAILED" and facts["attempts"] == 1, facts
        user = facts["user"]
        for words in (
            "node-1: ",
            f"user '{user}'",
            "queue 'default'",
            "s3://runs/ben",
            "allow s3://runs/mine",
            "ask who operates",
        ):
            assert words in facts["reason"], facts["reason"]
        cluster.rtrain("submit", ranks_job(tmp_path, "ours", 2, workers=1, storage_path="s3://runs/mine/"))
        assert end_of(cluster, "ours")["state"] == "SUCCEEDED"
        cluster.run("runs", "rm", "theirs", "--files", "--yes")
        # The agent has asked the server for nothing there: no probe, no result.json, no removal.
        touched = asked_below(s3, "/runs/ben/", KEY)
        assert set(touched) <= {"/runs/ben/theirs/result.json", "/runs/ben/theirs/run.json"}, touched
        kept = cluster.run("storage", "get", "s3://runs/ben/theirs/result.json", tmp_path / "kept")
        assert kept.returncode == 0 and (tmp_path / "kept").read_text() == "kept"
    finally:
        cluster.stop()


def test_a_run_that_was_refused_its_path_removes_nothing_there(s3, tmp_path):
    """Also with `resume`, for which any run of this cluster counts as its forerunner once it has claimed an attempt."""
    cluster = RuledCluster(tmp_path / "cluster", {"rules": [{"users": ["ben"], "allow": ["s3://runs/ben"]}]})
    try:
        cluster_id = cluster.json("status")["cluster_id"]
        header = {"cluster_id": cluster_id, "run_id": f"{cluster_id}-99", "user": "ben", "name": "theirs"}
        put_all({"ben/theirs/run.json": json.dumps(header), "ben/theirs/checkpoint_000001-a001/model.pt": "weights"})
        cluster.rtrain("submit", "--resume", ranks_job(tmp_path, "theirs", 2, workers=1, storage_path="s3://runs/ben"))
        assert end_of(cluster, "theirs")["state"] == "FAILED"
        cluster.run("runs", "rm", "theirs", "--files", "--yes")
        left = [one["path"] for one in cluster.json("storage", "list", "s3://runs/ben")["items"]]
        assert "s3://runs/ben/theirs/checkpoint_000001-a001/model.pt" in left, left
    finally:
        cluster.stop()


def test_rules_that_change_count_at_once_and_rules_that_break_allow_nothing(s3, tmp_path):
    cluster = RuledCluster(tmp_path / "cluster", {"rules": []})
    try:
        cluster.rtrain("submit", ranks_job(tmp_path, "early", 1, workers=1, storage_path="s3://runs/mine"))
        assert end_of(cluster, "early")["state"] == "FAILED"
        cluster.rules.write_text(json.dumps({"rules": [{"queues": ["default"], "allow": ["s3://runs/mine"]}]}))
        cluster.rtrain("submit", ranks_job(tmp_path, "later", 1, workers=1, storage_path="s3://runs/mine"))
        assert end_of(cluster, "later")["state"] == "SUCCEEDED"
        cluster.rules.chmod(0o666)
        cluster.rtrain("submit", ranks_job(tmp_path, "open", 1, workers=1, storage_path="s3://runs/mine"))
        wait_for("a refusal", lambda: "others than its owner may write it" in cluster.rtrain("events", "--run", "open"))
        assert not asked_below(s3, "/runs/mine/open", KEY)
    finally:
        cluster.stop()


def test_an_agent_does_not_start_with_rules_that_are_wrong(tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("rules:\n  - user: [ana]\n    allow: [s3://b/..]\n")
    cluster = LocalCluster(tmp_path / "cluster", nodes=0)
    try:
        token = cluster.json("token", "create", "--role", "node")["token"]
        join = ["node", "join", cluster.head_address(), "--token", token, "--name", "n", "--data", tmp_path / "n",
                "--peer-port", 0, "--resources", "CPU=1", "--allow-root-workers", "--detach"]  # fmt: skip
        refused = cluster.run(*join, "--storage-rules", wrong)
        assert refused.returncode != 0
        for words in ("rules[0].user", "unknown field", "wrong.yaml:2", "wrong.yaml:3", "'..' part"):
            assert words in refused.stderr, refused.stderr
        wrong.write_text("rules: []\n")
        wrong.chmod(0o622)
        refused = cluster.run(*join, "--storage-rules", wrong)
        assert refused.returncode != 0 and "others than its owner may write it" in refused.stderr
        missing = cluster.run(*join, "--storage-rules", tmp_path / "none.yaml")
        assert missing.returncode != 0 and "No such file" in missing.stderr
    finally:
        cluster.stop()


def test_the_server_that_an_agent_connects_to_is_its_operators(s3, tmp_path):
    """Nothing in a job's env changes where the agent's signed requests go."""
    cluster = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=2")
    try:
        env = {"AWS_ENDPOINT_URL": "http://169.254.169.254", "AWS_REGION": "x@169.254.169.254/", "AWS_ACCESS_KEY_ID": "other"}
        cluster.rtrain("submit", ranks_job(tmp_path, "inside", 2, workers=1, storage_path="s3://runs/mine", env=env))
        assert end_of(cluster, "inside")["state"] == "SUCCEEDED"
        assert s3.signers()["/runs/mine/inside/run.json"] == [KEY]
        assert "without --storage-rules every user may name" in (tmp_path / "cluster/node-1.log").read_text()
    finally:
        cluster.stop()
