"""Tests `rtrain plan` and `submit --dry-run` against a live head: they predict the result of a submit, including refusals."""

import json

import pytest
from jobs_on_disk import write_job
from local_cluster import LocalCluster


class WithQueues(LocalCluster):
    def start_head(self):
        queues = self.folder / "queues.yaml"
        queues.write_text(json.dumps({"version": 1, "queues": {"small": {"quota": {"CPU": 1}}}}))
        self.start("head", "head", "start", "--port", self.port, "--data", self.folder / "head", "--queues", queues)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = WithQueues(tmp_path_factory.mktemp("cluster") / "c", nodes=2, resources="CPU=2")
    yield made
    made.stop()


def sleeper(folder, name, workers=1, **fields):
    return write_job(folder, name, ["sleep", "1000"], workers, **fields)


def asked(cluster, path, *flags):
    """Returns the plan as JSON, the plan as text, and the exit code."""
    done = cluster.run("plan", path, *flags, "-o", "json")
    return json.loads(done.stdout), cluster.run("plan", path, *flags).stdout, done.returncode


def test_a_plan_says_that_a_quota_is_in_front_as_explain_does_afterwards(cluster, tmp_path):
    answer, text, code = asked(cluster, sleeper(tmp_path, "one", queue="small"))
    assert (answer["verdict"], code, set(answer["placement"])) == ("feasible now", 0, {"0"}), answer
    assert answer["headline"] == "It would start now: 1 worker on 1 node."
    cluster.rtrain("submit", tmp_path / "one.yaml")
    path = sleeper(tmp_path, "two", queue="small")
    answer, text, code = asked(cluster, path)
    assert (answer["verdict"], code, answer["placement"]) == ("pending", 8, {}), answer
    assert 'It would be QUEUED, position 1 of 1 in queue "small".' in text, text
    assert 'queue "small" holds 1 of its quota of 1 CPU' in text, text
    assert answer["queue"] == {"name": "small", "position": 1, "length": 1}
    dry = cluster.json("submit", "--dry-run", path)
    assert dry["verdict"] == "pending" and dry["plan"]["rules"] == answer["rules"]
    assert 'queue "small" holds 1 of its quota of 1 CPU' in cluster.rtrain("submit", "--dry-run", path)
    cluster.rtrain("submit", path)
    explained = cluster.json("explain", "two")
    assert explained["state"] == "QUEUED" and explained["rules"] == answer["rules"], (explained, answer)
    for name in ("two", "one"):
        cluster.rtrain("stop", name, "--wait")


def test_a_plan_says_whose_reservation_is_in_front_and_who_holds_what_until_when(cluster, tmp_path):
    cluster.rtrain("submit", sleeper(tmp_path, "busy", scaling={"resources_per_worker": {"CPU": 2}}, limits={"wall_time": "2h"}))
    cluster.wait_state("busy", "RUNNING")
    cluster.rtrain("submit", sleeper(tmp_path, "big", 2, scaling={"resources_per_worker": {"CPU": 2}}))
    answer, text, code = asked(cluster, sleeper(tmp_path, "behind"))
    assert (answer["verdict"], code) == ("pending", 8), answer
    assert "It waits behind a run that needs the same nodes." in text, text
    assert "order: 1 run comes before it, first big (it is older)" in text, text
    kinds = {group["kind"]: group["text"] for group in answer["groups"]}
    assert "for big (starts in 1h" in kinds["reserved"] and "by busy (ETA 1h" in kinds["CPUs busy"], kinds
    assert any("2 CPU by busy" in line for line in answer["holders"]), answer["holders"]
    answer, text, code = asked(cluster, sleeper(tmp_path, "short", limits={"wall_time": "1m"}))
    assert (answer["verdict"], code) == ("feasible now", 0), text
    (tmp_path / "picky.yaml").write_text(
        "version: 1\nname: picky\nentrypoint: 'true'\nscaling:\n  workers: 1\n  label_selector: {zone: mars}\n"
    )
    answer, text, code = asked(cluster, tmp_path / "picky.yaml")
    assert code in (8, 9) and "zone = mars" in text and "picky.yaml:6" in text, text
    for name in ("big", "busy"):
        cluster.rtrain("stop", name, "--wait")
    assert len(cluster.json("runs", "--all")["items"]) == 4, "a plan makes no run"


def test_a_plan_and_a_dry_run_are_refused_where_a_submit_is(cluster, tmp_path):
    path = tmp_path / "lost.yaml"
    path.write_text("version: 1\nname: lost\nentrypoint: 'true'\nqueue: nope\n")
    huge = write_job(tmp_path, "huge", "true", scaling={"resources_per_worker": {"CPU": 64}, "wait_for_nodes": False})
    (tmp_path / "drive.py").write_text("print('driven')\n")
    cluster.rtrain("submit", write_job(tmp_path, "taken", "true"))
    cluster.wait_state("taken", "SUCCEEDED")
    for code, words, *command in [
        (4, 'lost.yaml:4: queue: there is no queue "nope"', "submit", path),
        (4, "begins above its end", "submit", "--array", "8-1", tmp_path / "taken.yaml"),
        (3, "after: ", "submit", "--after", "nosuch", write_job(tmp_path, "later", "true")),
        (7, "there is a run 'taken'", "submit", tmp_path / "taken.yaml"),
        (9, "no present node could ever hold it", "submit", huge),
        (4, 'queue: there is no queue "nope"', "submit", "--set", "queue=nope", tmp_path / "drive.py"),
    ]:
        meant = cluster.run(*command)
        dry = cluster.run(command[0], "--dry-run", *command[1:])
        assert meant.returncode == dry.returncode == code, (command, meant.stderr, dry.stderr)
        assert words in meant.stderr and meant.stderr == dry.stderr, (meant.stderr, dry.stderr)
    planned = cluster.run("plan", path)
    assert planned.returncode == 4 and 'lost.yaml:4: queue: there is no queue "nope"' in planned.stderr, planned.stderr
    assert cluster.run("plan", tmp_path / "taken.yaml").returncode == 0, "its name is not asked about"
    assert cluster.run("plan", huge).returncode == 9
    assert cluster.json("submit", "--dry-run", "--new", tmp_path / "taken.yaml")["verdict"] == "feasible now"


class Labelled(LocalCluster):
    """A cluster in which each node has another rack label."""

    def command(self, name, *arguments):
        rack = ("--label", f"rack={name.replace('node', 'rack')}") if arguments[:2] == ("node", "join") else ()
        return super().command(name, *arguments, *rack)


def test_each_worker_may_be_sent_to_another_place(tmp_path):
    cluster = Labelled(tmp_path / "cluster", nodes=3, resources="CPU=4")
    try:
        apart = {"workers": 3, "worker_selectors": [{"rack": "rack-3"}, {"rack": "in(rack-1,rack-2)"}, {"rack": "rack-1"}]}
        cluster.rtrain("submit", write_job(tmp_path, "apart", "true", scaling=apart))
        cluster.wait_state("apart", "SUCCEEDED", "FAILED")
        workers = cluster.json("describe", "apart")["attempt_list"][0]["workers"]
        nodes = sorted(one["node"] for one in workers)
        assert nodes[0] == "node-1" and nodes[-1] == "node-3" and nodes[1] in ("node-1", "node-2"), nodes
        first = {"workers": "1..3", "worker_selectors": [{"rack": "rack-2"}, {"rack": "rack-1"}, {"rack": "rack-9"}]}
        cluster.rtrain("submit", write_job(tmp_path, "first", "true", scaling=first))
        cluster.wait_state("first", "SUCCEEDED", "FAILED")
        attempt = cluster.json("describe", "first")["attempt_list"][0]
        assert sorted(worker["node"] for worker in attempt["workers"]) == ["node-1", "node-2"], "no node is fit for the third"
        nowhere = {"workers": 2, "worker_selectors": [{"rack": "rack-1"}, {"rack": "rack-9"}], "wait_for_nodes": False}
        refused = cluster.run("submit", write_job(tmp_path, "nowhere", "true", scaling=nowhere))
        assert refused.returncode == 9 and "could ever hold it" in refused.stderr, refused.stderr
    finally:
        cluster.stop()
