"""Tests which users may use which storage paths: the operator's rules, and credentials in a job's secrets."""

import json
import pathlib

from jobs_on_disk import ranks_job
from local_cluster import LocalCluster, wait_for
from started import ANOTHER, KEY, put_all


class RuledCluster(LocalCluster):
    """A cluster whose agents have `--storage-rules`."""

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


def own_job(cluster, monkeypatch, folder, name, *, secret=ANOTHER["AWS_SECRET_ACCESS_KEY"], steps=2, pause=0.0, env=None):
    """Writes a job with secrets whose values are in its submitter's environment."""
    monkeypatch.setitem(cluster.env, "AWS_ACCESS_KEY_ID", ANOTHER["AWS_ACCESS_KEY_ID"])
    monkeypatch.setitem(cluster.env, "AWS_SECRET_ACCESS_KEY", secret)
    return ranks_job(
        folder, name, steps, pause, workers=1, storage_path=f"s3://runs/{name}", env=env or {}, secrets=list(ANOTHER)
    )


def test_another_users_prefix_is_refused_before_anything_is_written_there(s3, tmp_path):
    put_all({"ben/theirs/result.json": "kept", "ben/theirs/run.json": "{}"}, ANOTHER)
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
        # The agent sent no requests for that path: no probe, no result.json, no removal.
        assert asked_below(s3, "/runs/ben/", KEY) == []
        kept = cluster.run("storage", "get", "s3://runs/ben/theirs/result.json", tmp_path / "kept")
        assert kept.returncode == 0 and (tmp_path / "kept").read_text() == "kept"
    finally:
        cluster.stop()


def test_a_run_that_was_refused_its_path_removes_nothing_there(s3, tmp_path):
    """Also submits with `resume`, which accepts any run of this cluster that has claimed an attempt as a predecessor."""
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


def test_a_jobs_own_credentials_serve_its_run_also_after_a_restart_of_the_agent(s3, tmp_path, monkeypatch):
    cluster = RuledCluster(tmp_path / "cluster", {"rules": []})  # the rules limit the agent's credentials only
    data = tmp_path / "cluster" / "node-1"
    try:
        cluster.rtrain("submit", own_job(cluster, monkeypatch, tmp_path, "own", steps=3000, pause=0.3))
        wait_for("a checkpoint", lambda: cluster.json("describe", "own")["latest_checkpoint"])
        kept = list(data.rglob("s3-credentials"))
        assert [file.stat().st_mode & 0o777 for file in kept] == [0o600]
        for file in data.rglob("*"):
            if file.is_file() and file not in kept:
                assert ANOTHER["AWS_SECRET_ACCESS_KEY"].encode() not in file.read_bytes(), file
        for name, value in s3.environment.items():
            monkeypatch.setitem(cluster.env, name, value)
        cluster.kill("node-1")
        cluster.restart("node-1")
        seen = cluster.json("describe", "own")["latest_checkpoint"]
        wait_for("a checkpoint after the restart", lambda: cluster.json("describe", "own")["latest_checkpoint"] != seen)
        cluster.rtrain("stop", "own")
        cluster.wait_state("own", "STOPPED")
        wait_for("the result", lambda: "/runs/own/own/result.json" in s3.signers())
        asked = {path: keys for path, keys in s3.signers().items() if path.startswith("/runs/own/")}
        assert "/runs/own/own/run.json" in asked
        assert set(map(tuple, asked.values())) == {(ANOTHER["AWS_ACCESS_KEY_ID"],)}, asked
        wait_for("the credentials to go", lambda: not list(data.rglob("s3-credentials")))
    finally:
        cluster.stop()


def test_a_jobs_own_credentials_are_not_replaced_by_the_agents(s3, tmp_path, monkeypatch):
    cluster = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=2")
    try:
        cluster.rtrain("submit", own_job(cluster, monkeypatch, tmp_path, "false", secret="not-hers"))
        facts = end_of(cluster, "false")
        assert facts["state"] == "FAILED" and "the secret that goes with the access key" in facts["reason"], facts["reason"]
        assert "not-hers" not in json.dumps(facts) + (tmp_path / "cluster/node-1.log").read_text()
        assert not asked_below(s3, "/runs/false", KEY)
    finally:
        cluster.stop()


def test_a_job_does_not_choose_the_server_that_an_agent_connects_to(s3, tmp_path, monkeypatch):
    cluster = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=2")
    inside = {"AWS_ENDPOINT_URL": "http://169.254.169.254"}
    try:
        cluster.rtrain("submit", own_job(cluster, monkeypatch, tmp_path, "inside", env=inside))
        facts = end_of(cluster, "inside")
        assert facts["state"] == "FAILED" and facts["attempts"] == 1
        for words in ("node-1: ", "names http://169.254.169.254", "endpoints"):
            assert words in facts["reason"], facts["reason"]
        # The agent ignores AWS_* in the env of a job without credentials.
        cluster.rtrain("submit", ranks_job(tmp_path, "agents", 2, workers=1, storage_path="s3://runs/agents", env=inside))
        assert end_of(cluster, "agents")["state"] == "SUCCEEDED"
        assert "/runs/agents/agents/run.json" in s3.signers()
        cluster.rtrain("submit", own_job(cluster, monkeypatch, tmp_path, "region", env={"AWS_REGION": "x@169.254.169.254/"}))
        assert "AWS_REGION is 'x@169.254.169.254/'" in end_of(cluster, "region")["reason"]
    finally:
        cluster.stop()


def test_the_server_that_an_agent_connects_to_is_its_operators(s3, tmp_path):
    """Sets endpoint, region and key in a job's env; none of them changes where the agent sends its own signed requests."""
    cluster = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=2")
    try:
        env = {"AWS_ENDPOINT_URL": "http://169.254.169.254", "AWS_REGION": "x@169.254.169.254/", "AWS_ACCESS_KEY_ID": "other"}
        cluster.rtrain("submit", ranks_job(tmp_path, "inside", 2, workers=1, storage_path="s3://runs/mine", env=env))
        assert end_of(cluster, "inside")["state"] == "SUCCEEDED"
        assert s3.signers()["/runs/mine/inside/run.json"] == [KEY]
        assert "without --storage-rules every user may name" in (tmp_path / "cluster/node-1.log").read_text()
    finally:
        cluster.stop()


def test_a_link_inside_of_an_allowed_directory_leads_nowhere_else(tmp_path):
    allowed, outside = tmp_path / "allowed", tmp_path / "outside"
    allowed.mkdir()
    outside.mkdir()
    (allowed / "out").symlink_to(outside)
    cluster = RuledCluster(tmp_path / "cluster", {"rules": [{"users": ["*"], "allow": [str(allowed)]}]})
    try:
        for place in (allowed / "out", allowed / "out" / "deeper"):
            cluster.rtrain("submit", ranks_job(tmp_path, "led-out", 2, workers=1, storage_path=str(place)), "--new")
            facts = end_of(cluster, "led-out")
            assert facts["state"] == "FAILED" and f"{place} leads to {outside}" in facts["reason"], facts["reason"]
        assert not list(outside.iterdir())
        cluster.rtrain("submit", ranks_job(tmp_path, "inside", 30, 0.1, workers=1, storage_path=str(allowed / "runs")))
        wait_for("a checkpoint", lambda: list(allowed.glob("runs/inside/checkpoint_*")))
        (allowed / "runs").rename(allowed / "were-runs")  # exchanges a directory of the path while the run writes there
        (allowed / "runs").symlink_to(outside)
        wait_for("the link to be named", lambda: "is a link" in cluster.rtrain("events", "--run", "inside"))
        assert not list(outside.glob("inside/checkpoint_*"))
    finally:
        cluster.stop()
