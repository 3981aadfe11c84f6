"""Tests that a node which wrote a checkpoint to a storage that it does not mount reads its local copy at the next attempt."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest
from jobs_on_disk import JOBS, write_job
from local_cluster import RTRAIN, LocalCluster, wait_for


@pytest.fixture
def start(tmp_path):
    made = []

    def begin(nodes=1, resources="CPU=2"):
        made.append(LocalCluster(tmp_path / "cluster", nodes=nodes, resources=resources))
        return made[-1]

    yield begin
    for cluster in made:
        cluster.stop()


def two_ranks(folder, name, **fields):
    """Writes a job whose ranks wait after each report until they are killed. Each rank's file has other content, since equal
    files would be stored once.
    """
    return write_job(
        folder, name, ["python", str(JOBS / "ranks.py"), "3", "1000", "own"], 2, failure={"max_failures": 1}, **fields
    )


def latest(cluster, run):
    return cluster.json("describe", run)["latest_checkpoint"]


def kept_on(cluster, node):
    """Returns the node's copies of checkpoints, as RUN/ATTEMPT-REPORT."""
    place = cluster.folder / node / "checkpoints"
    return sorted(str(path.relative_to(place)) for path in place.glob("*/*"))


def run_until_kept(cluster, job, nodes=("node-1",)):
    """Starts a run and returns its id once the first checkpoint is committed and copied on the nodes."""
    run = cluster.json("submit", job)["run_id"]
    wait_for("a checkpoint", lambda: latest(cluster, job.stem))
    for node in nodes:
        wait_for(f"what {node} keeps", lambda node=node: kept_on(cluster, node) == [f"{run}/1-1"])
    return run


def restart_ranks(cluster, run):
    """Kills rank 1; the run resumes from its checkpoint and commits another one. Returns the output of all ranks."""
    before = latest(cluster, run)
    os.kill(cluster.json("describe", run)["attempt_list"][-1]["workers"][1]["pid"], signal.SIGKILL)
    wait_for("a checkpoint of the next attempt", lambda: latest(cluster, run) != before)
    facts = cluster.json("describe", run)
    assert [attempt["from"] for attempt in facts["attempt_list"]] == [None, before]
    return cluster.rtrain("logs", run, "--rank", "all")


def reads_of_files(s3):
    """Returns the number of downloads of checkpoint files by file name."""
    counts = {}
    for path, count in s3.reads().items():
        if path.endswith(".txt"):
            name = path.rsplit("/", 1)[-1]
            counts[name] = counts.get(name, 0) + count
    return counts


def log_of(cluster, node):
    return (cluster.folder / f"{node}.log").read_text()


def test_a_restart_downloads_nothing_that_its_node_brought_to_a_bucket(s3, start, tmp_path):
    cluster = start()
    job = two_ranks(tmp_path, "near", storage_path="s3://runs/near")
    run = run_until_kept(cluster, job)
    assert "resumed at 1 with ['rank-0.txt', 'rank-1.txt']" in restart_ranks(cluster, "near")
    assert reads_of_files(s3) == {}
    assert "read on this node, not downloaded: 2 files of 3 bytes" in log_of(cluster, "node-1")
    wait_for("the newest alone", lambda: kept_on(cluster, "node-1") == [f"{run}/2-1"])
    cluster.rtrain("stop", "near", "--now")
    wait_for("nothing of an ended run", lambda: kept_on(cluster, "node-1") == [])


def test_a_kept_file_that_was_changed_is_downloaded(s3, start, tmp_path):
    cluster = start()
    job = two_ranks(tmp_path, "forged", storage_path="s3://runs/forged")
    run = run_until_kept(cluster, job)
    for path in (cluster.folder / "node-1" / "checkpoints" / run / "1-1").iterdir():
        path.write_text("9 "[: path.stat().st_size])
    assert "resumed at 1 with ['rank-0.txt', 'rank-1.txt']" in restart_ranks(cluster, "forged")
    assert reads_of_files(s3) == {"rank-0.txt": 1, "rank-1.txt": 1}
    assert "is not what was committed" in log_of(cluster, "node-1")


def test_each_of_two_nodes_downloads_the_other_s_files_alone(s3, start, tmp_path):
    cluster = start(nodes=2, resources="CPU=1")
    job = two_ranks(tmp_path, "apart", storage_path="s3://runs/apart")
    run_until_kept(cluster, job, nodes=("node-1", "node-2"))
    assert "resumed at 1 with ['rank-0.txt', 'rank-1.txt']" in restart_ranks(cluster, "apart")
    assert reads_of_files(s3) == {"rank-0.txt": 1, "rank-1.txt": 1}


def test_on_the_heads_store_the_next_agent_finds_what_the_one_before_it_kept(start, tmp_path):
    cluster = start()
    run = run_until_kept(cluster, two_ranks(tmp_path, "head"))
    stored = list((cluster.folder / "head").rglob("rank-*.txt"))
    assert len(stored) == 2
    for path in stored:
        path.write_text("9 "[: path.stat().st_size])  # content that a download would not have
    cluster.kill("node-1")
    cluster.restart("node-1")
    wait_for("the agent", lambda: cluster.ready_nodes() == 1)
    assert "resumed at 1 with ['rank-0.txt', 'rank-1.txt']" in restart_ranks(cluster, "head")
    cluster.rtrain("stop", "head", "--now")
    cluster.wait_state("head", "STOPPED")
    wait_for("nothing of an ended run", lambda: kept_on(cluster, "node-1") == [] and run)


def test_where_the_storage_path_is_mounted_nothing_is_kept(start, tmp_path):
    cluster = start()
    cluster.rtrain("submit", two_ranks(tmp_path, "mounted", storage_path=str(tmp_path / "runs")))
    wait_for("a checkpoint", lambda: latest(cluster, "mounted"))
    restart_ranks(cluster, "mounted")
    assert not (cluster.folder / "node-1" / "checkpoints").exists()


PERSON = "nobody"
# A worker for PERSON, who cannot read root's virtual environment: it implements the worker's protocol itself.
WORKER = """
import json, os, socket, struct, sys

link = socket.socket(socket.AF_UNIX)
link.connect(os.environ["RTRAIN_WORKER_SOCKET"])
stream = link.makefile("rb")


def send(**fields):
    body = json.dumps(fields).encode()
    link.sendall(struct.pack(">I", len(body)) + body)


def hear(kind):
    while True:
        frame = json.loads(stream.read(struct.unpack(">I", stream.read(4))[0]))
        if frame["type"] == kind:
            return frame


me = {"attempt": os.environ["RTRAIN_ATTEMPT"], "rank": 0, "pid": os.getpid(), "key": os.environ["RTRAIN_WORKER_KEY"]}
send(type="hello", protocol=1, min_protocol=1, next_index=1, uncommitted=[], **me)
start = hear("welcome").get("checkpoint")
if start:
    file = start["path"] + "/below/model.bin"
    print("begins with", open(file).read(), os.stat(file).st_uid, os.access(file, os.W_OK), flush=True)
    sys.exit(0)
send(type="stage")
stage = hear("staged")["path"]
os.mkdir(stage + "/below", 0o700)
with open(os.open(stage + "/below/model.bin", os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
    file.write("weights")
send(type="report", index=1, metrics={}, checkpoint={"path": stage, "directory_name": ""}, upload="async")
hear("committed")
sys.exit(1)
"""


class MappedUsers(LocalCluster):
    def command(self, name, *arguments):
        return [word for word in super().command(name, *arguments) if word != "--allow-root-workers"]


@pytest.mark.skipif(os.geteuid() != 0, reason="changes users")
def test_the_files_of_a_mapped_user_are_kept_apart_from_him_and_restored_readable():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rtrain-kept-"))
    folder.chmod(0o755)  # unlike pytest's folder, other users may enter it
    cluster = MappedUsers(folder / "cluster", nodes=1)
    try:
        (folder / "worker.py").write_text(WORKER)
        job = write_job(folder, "mapped", ["python3", str(folder / "worker.py")], failure={"max_failures": 1})
        token = cluster.json("token", "create", "--role", "user", "--user", PERSON)["token"]
        subprocess.run([RTRAIN, "submit", job, "-f"], env={**cluster.env, "RTRAIN_TOKEN": token}, capture_output=True)
        assert cluster.wait_state("mapped", "SUCCEEDED", "FAILED")
        assert "begins with weights 0 False" in cluster.rtrain("logs", "mapped"), cluster.rtrain("describe", "mapped")
        assert "read on this node, not downloaded: 1 file of 7 bytes" in log_of(cluster, "node-1")
        place = cluster.folder / "node-1" / "checkpoints"
        assert place.stat().st_uid == 0 and place.stat().st_mode & 0o777 == 0o700
    finally:
        cluster.stop()
        shutil.rmtree(folder)
