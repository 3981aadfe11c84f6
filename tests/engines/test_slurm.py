"""Tests `rtrain slurm submit`: its script is valid whatever a job's name is, and starts a cluster in an allocation of
Debian's Slurm with two nodes in namespaces. The job's exit code is that of the run. A job that reaches its time limit is
requeued and resumes from its checkpoint.
"""

import contextlib
import json
import os
import pathlib
import re
import stat
import subprocess

import pytest
import slurm_cluster
from jobs_on_disk import ranks_job, write_job
from local_cluster import ROOT, RTRAIN, wait_for

needs_slurm = pytest.mark.skipif(bool(slurm_cluster.hindrance()), reason=slurm_cluster.hindrance() or "it runs here")
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}


def submit(*words, code=0, **options):
    done = subprocess.run([RTRAIN, "slurm", "submit", *map(str, words)], capture_output=True, text=True, **options)
    assert done.returncode == code, done.stderr
    return done


def printed(*words):
    return submit(*words, "--print").stdout


def test_the_script_says_what_the_job_says(tmp_path):
    job = write_job(tmp_path, "one", "true", storage_path="/shared/runs", limits={"wall_time": "1h"})
    script = printed(job, "--nodes", 3, "--sbatch=--partition=gpu", "--sbatch=--gpus-per-node=8", "--output-file", "/logs/%j.out")
    directives = [line.split(" ", 1)[1] for line in script.splitlines() if line.startswith("#SBATCH")]
    assert directives == ["--job-name=one", "--nodes=3", "--ntasks-per-node=1", "--requeue", "--open-mode=append",
                          "--signal=B:TERM@120", "--time=65", "--output=/logs/%j.out", "--partition=gpu", "--gpus-per-node=8"]  # fmt: skip
    assert "--time=30" in printed(job, "--time", "30m")
    assert "\ndeadline=75s\n" in script  # 75 of the 120 s
    assert "\ninterface=''\n" in script and "\ninterface='ib0'\n" in printed(job, "--interface", "ib0")
    assert "\ndeadline=555s\n" in printed(job, "--sbatch=--signal=B:TERM@600")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_no_word_of_a_job_is_read_as_the_script(tmp_path):
    """Checks that paths and settings with a meaning for a shell, sbatch or YAML arrive unchanged."""
    folder = tmp_path / "it's $(touch pwned) `id` \" # a"
    folder.mkdir()
    job = write_job(folder, "yes", "true", storage_path=str(folder / "runs"))
    script = printed(job, "--set", "labels.team=it's", "--set", 'env.A="$$(touch pwned)\'; touch pwned #"')
    head = script[: script.index("set -u")]  # only assignments; the rest is the same for every job
    words = subprocess.run(
        ["bash", "-c", head + '\nprintf "%s\\n" "$spec" "${sets[@]}"'], capture_output=True, text=True, cwd=tmp_path, check=True
    ).stdout.splitlines()
    assert words == [str(job), "--set", "labels.team=it's", "--set", 'env.A="$$(touch pwned)\'; touch pwned #"']
    assert not list(tmp_path.rglob("pwned"))
    plain = printed(write_job(tmp_path, "plain", "true", storage_path="/shared/runs"))
    assert script[script.index("set -u") :] == plain[plain.index("set -u") :]
    assert "TOKEN=rt" not in script


def test_refused_before_anything_is_submitted(tmp_path):
    assert "ends with the allocation" in submit(write_job(tmp_path, "one", "true"), "--print", code=4).stderr
    job = write_job(tmp_path, "two", "true", storage_path="/shared/runs")
    for wrong in ("--comment=a b", "-p gpu", "--wrap=x\n#SBATCH --uid=0", "--x=$(id)", "--x='y'"):
        submit(job, f"--sbatch={wrong}", "--print", code=2)
    for array in ("--array=0-3", "--arr=0-3", "--ar=1"):  # several heads would write to the directory of one run
        assert "one run's directory" in submit(job, f"--sbatch={array}", "--print", code=2).stderr
    assert "--account=a" in printed(job, "--sbatch=--account=a")
    submit(job, "--nodes", 0, "--print", code=2)
    assert "needs a file" in submit("-", "--print", code=2, input=job.read_text()).stderr
    assert "sbatch" in submit(job, code=3, env={**os.environ, "PATH": "/nonexistent"}).stderr


def test_a_task_of_an_array_starts_no_head(tmp_path):
    """Tests the script itself, since variables can set an array, or a user may submit a printed script."""
    script = printed(write_job(tmp_path, "one", "true", storage_path="/shared/runs"))
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "6"}
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == 2 and "job array" in done.stderr and not list(tmp_path.glob("rtrain-7*"))


def test_directories_that_a_neighbour_has_made_hold_no_job_up(tmp_path):
    script = printed(write_job(tmp_path, "one", "true", storage_path="/shared/runs"))
    places = tmp_path / "places"
    for name in ("rtrain-7", "rtrain-7-n"):
        (places / name).mkdir(parents=True)
        (places / name / "mine").write_text("")
    tried = tmp_path / "tried"
    tried.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/words"\nexit 1\n')
    tried.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(places), "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1"}
    done = subprocess.run(
        ["bash"],
        input=re.sub("^program=.*$", f"program={tried}", script, flags=re.M),
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
    )
    assert done.returncode == 10 and "the head did not start" in done.stderr, done.stderr
    assert f"--data {places}/rtrain-7-" in (tmp_path / "words").read_text()
    assert all((places / name / "mine").exists() for name in ("rtrain-7", "rtrain-7-n"))
    assert len(list(places.iterdir())) == 2  # the job's own folder is removed


@pytest.mark.parametrize(
    "given, resources",
    [
        ({"SLURM_MEM_PER_NODE": "4096"}, "CPU=6,memory=4096Mi"),
        ({"SLURM_MEM_PER_CPU": "512"}, "CPU=6,memory=3072Mi"),
        ({"SLURM_MEM_PER_GPU": "2048", "SLURM_GPUS_ON_NODE": "4"}, "CPU=6,memory=8192Mi"),
        ({}, "CPU=6"),
    ],
)
def test_an_agent_offers_the_memory_that_slurm_gave(given, resources, tmp_path):
    script = printed(write_job(tmp_path, "one", "true", storage_path="/shared/runs"))
    agent = script[script.index("agent='") + len("agent='") : script.index('rm -rf "$own"\'\n') + len('rm -rf "$own"')]
    program = tmp_path / "program"
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/words"\ncat "$5" > "{tmp_path}/seen"\nenv >> "{tmp_path}/seen"\n'
    )
    program.chmod(0o755)
    env = {
        "PATH": os.environ["PATH"],
        "TMPDIR": str(tmp_path),
        "SLURM_JOB_ID": "7",
        "SLURMD_NODENAME": "n",
        "SLURM_CPUS_ON_NODE": "6",
        "token": "of the user",
    }
    subprocess.run(["bash", "-c", agent, "agent", program, "head:1"], input="rtn1.x", text=True, env=env | given, timeout=60)
    words = (tmp_path / "words").read_text().split()
    assert words[words.index("--resources") + 1] == resources
    assert words[3] == "--token-file" and "rtn1.x" not in words
    assert (tmp_path / "seen").read_text().count("rtn1.x") == 1  # in the file, not in the environment


# Replaces rtrain in a batch script; `srun` records the command that it should start.
STAND_IN = """\
#!/bin/sh
case "$1 $2" in
  "head start") echo 192.0.2.1:7433; exec sleep 60 ;;
  "token create") echo rtn1.x ;;
esac
"""


@pytest.mark.parametrize(
    "flags, tools, address",
    [
        (
            [],
            {"scontrol": "NodeName=n NodeAddr=n.site NodeHostName=n Port=0", "getent": "10.1.2.3 STREAM n.site"},
            "10.1.2.3:7433",
        ),
        ([], {"scontrol": "NodeName=n NodeAddr=n NodeHostName=n", "getent": "127.0.1.1 STREAM n"}, "192.0.2.1:7433"),
        ([], {"scontrol": "", "getent": ""}, "192.0.2.1:7433"),
        (["--interface", "ib0"], {"ip": "3: ib0    inet 10.9.0.4/16 brd 10.9.255.255 scope global ib0"}, "10.9.0.4:7433"),
        (["--interface", "ib0"], {"ip": ""}, None),
    ],
)
def test_agents_find_the_head_where_slurm_does_or_at_a_network_card(flags, tools, address, tmp_path):
    script = printed(write_job(tmp_path, "one", "true", storage_path="/shared/runs"), *flags)
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, answer in {"scancel": "", "squeue": "", **tools}.items():
        (folder / name).write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/{name}"\necho "{answer}"\n')
    (folder / "srun").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/words"\ncat > "{tmp_path}/given"\n')
    (folder / "rtrain").write_text(STAND_IN)
    for tool in folder.iterdir():
        tool.chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": str(tmp_path), "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1",
           "SLURMD_NODENAME": "n"}  # fmt: skip
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, env=env, timeout=60)
    if address is None:
        assert done.returncode == 10 and "ib0 has no address on n" in done.stderr, done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "words").read_text().splitlines()[-1] == address
    assert (tmp_path / "given").read_text() == "rtn1.x\n"
    if "scontrol" in tools:
        assert (tmp_path / "scontrol").read_text() == "show node -o n\n"


# ---- uses a real Slurm


@pytest.fixture
def slurm(tmp_path):
    made = slurm_cluster.Slurm(tmp_path / "slurm")
    made.env["PATH"] = f"{ROOT / '.venv' / 'bin'}:{made.env['PATH']}"
    yield made
    made.stop()


class Batch:
    def __init__(self, slurm, folder, job, *words):
        self.slurm, self.output = slurm, pathlib.Path(folder) / "slurm.out"
        done = slurm.run(RTRAIN, "slurm", "submit", job, "--program", RTRAIN, "--output-file", self.output, "-o", "json", *words)
        assert done.returncode == 0, done.stderr
        self.number = json.loads(done.stdout)["job_id"]

    def ends(self, seconds=180):
        wait_for("the end of the job", lambda: self.slurm.job(self.number)["JobState"] in ENDED, seconds)
        return self.slurm.job(self.number)

    def log(self):
        return self.output.read_text() if self.output.exists() else ""


@needs_slurm
def test_a_gang_over_two_nodes_and_the_exit_code_of_its_run(slurm, tmp_path):
    job = write_job(tmp_path, "both", "hostname; exit 0", workers=2, storage_path=str(tmp_path / "runs"),
                    scaling={"placement": "STRICT_SPREAD"})  # fmt: skip
    batch = Batch(slurm, tmp_path, job, "--nodes", 2)  # the head's first address is not reachable from node2
    ended = batch.ends()
    assert (ended["JobState"], ended["ExitCode"]) == ("COMPLETED", "0:0"), batch.log()
    assert {"node1", "node2"} <= set(re.findall(r"node\d", batch.log())), batch.log()
    logs = tmp_path / "runs" / "both" / "logs" / "attempt-000001"
    assert {(logs / f"rank-{rank:05}.out").read_text().strip() for rank in range(2)} == {"node1", "node2"}
    assert not list(slurm.jobs.glob("rtrain-*"))  # head and agents have removed their folders
    wait_for("both nodes to be idle", lambda: slurm.idle() == 2)
    assert "rtn1." not in batch.log()

    failing = Batch(slurm, tmp_path / "runs", write_job(tmp_path, "fails", "exit 3", storage_path=str(tmp_path / "runs")))
    ended = failing.ends()
    assert (ended["JobState"], ended["ExitCode"]) == ("FAILED", "3:0"), failing.log()


def processes_of(number):
    """Yields (arguments, environment) of a Slurm job's processes on this machine, including head and agents."""
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            environment = (place / "environ").read_bytes()
            arguments = (place / "cmdline").read_bytes()
        except OSError:
            continue  # the process has ended
        if f"SLURM_JOB_ID={number}\0".encode() in environment:
            yield arguments, environment


def files_below(folder):
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):  # the file was removed
            if file.is_file():
                yield file, file.read_bytes()


@needs_slurm
def test_the_join_token_is_in_no_file_and_the_end_of_every_agent_ends_the_job(slurm, tmp_path):
    """Searches all files of the agents' user, since the job's processes can read them."""
    slurm.env["token"] = "of the user"  # sbatch passes this variable on
    job = write_job(tmp_path, "left", "echo it trains; exec sleep 1000", storage_path=str(tmp_path / "runs"))
    batch = Batch(slurm, tmp_path, job)
    wait_for("the run", lambda: "it trains" in batch.log(), 120)
    seen = list(processes_of(batch.number))
    assert any(b"\0join\0" in arguments for arguments, _ in seen) and any(b"\0submit\0" in arguments for arguments, _ in seen)
    assert not [one for one in seen if b"rtn1." in one[0] or b"rtn1." in one[1]]
    [own] = slurm.jobs.glob(f"rtrain-{batch.number}-node1-*")
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    held = dict(files_below(slurm.jobs))
    assert any(own / "node" in file.parents for file in held)
    assert not [file for file, bytes_ in held.items() if b"rtn1." in bytes_]
    assert slurm.run("scancel", "--signal=KILL", f"{batch.number}.0").returncode == 0
    ended = batch.ends()
    assert ended["JobState"] == "FAILED" and ended["Restarts"] == "0", batch.log()
    assert "no agent is left" in batch.log()


@needs_slurm
def test_a_job_whose_time_is_over_is_requeued_and_goes_on_from_its_checkpoint(slurm, tmp_path):
    job = ranks_job(tmp_path, "long", 60, 0.4, storage_path=str(tmp_path / "runs"))
    batch = Batch(slurm, tmp_path, job)
    run = tmp_path / "runs" / "long"
    wait_for("checkpoints", lambda: len(list(run.glob("checkpoint_*/.manifest.json"))) > 2, 120)
    # Slurm sends this signal two minutes before the time limit, because of --signal=B:TERM@120.
    assert slurm.run("scancel", "--batch", "--signal=TERM", batch.number).returncode == 0
    wait_for("the job to be requeued", lambda: slurm.job(batch.number).get("Restarts") == "1", 120)
    assert "requeued" in batch.log(), batch.log()
    ended = batch.ends(240)
    assert ended["JobState"] == "COMPLETED", batch.log()
    assert int(re.search(r"resumed at (\d+)", batch.log())[1]) > 2 and "rank 0 is through" in batch.log()
    assert json.loads((run / "result.json").read_text())["state"] == "SUCCEEDED"


@needs_slurm
def test_a_time_limit_of_slurm_itself_ends_with_a_checkpoint_and_a_requeue(slurm, tmp_path):
    job = ranks_job(tmp_path, "limited", 600, 0.4, storage_path=str(tmp_path / "runs"))
    # Slurm warns up to some seconds earlier than two minutes before the limit.
    batch = Batch(slurm, tmp_path, job, "--time", "3m")
    run = tmp_path / "runs" / "limited"
    # A requeued job is COMPLETING until its node is free, and PENDING after it.
    over = lambda: slurm.job(batch.number)["JobState"] in (*ENDED, "PENDING")  # noqa: E731
    wait_for("the job to run", lambda: slurm.job(batch.number)["JobState"] == "RUNNING", 60)
    wait_for("the job to be requeued", over, 240)
    requeued = slurm.job(batch.number)
    assert (requeued["JobState"], requeued["Restarts"]) == ("PENDING", "1"), batch.log()
    assert "asked for a checkpoint" in batch.log() and "requeued" in batch.log(), batch.log()
    assert json.loads((run / "result.json").read_text())["state"] == "STOPPED"
    assert list(run.glob("checkpoint_*/.manifest.json"))
    wait_for("both nodes to be idle", lambda: slurm.idle() == 2)
    assert slurm.run("scancel", batch.number).returncode == 0


@needs_slurm
def test_scancel_ends_a_job_for_good(slurm, tmp_path):
    """Cancels the job: scancel sends SIGTERM to the script like the warning does, but Slurm has already ended the job then."""
    job = ranks_job(tmp_path, "unwanted", 600, 0.4, storage_path=str(tmp_path / "runs"))
    batch = Batch(slurm, tmp_path, job)
    wait_for("checkpoints", lambda: len(list((tmp_path / "runs" / "unwanted").glob("checkpoint_*/.manifest.json"))) > 0, 120)
    assert slurm.run("scancel", batch.number).returncode == 0
    ends = lambda: slurm.job(batch.number)["JobState"] in ENDED or slurm.job(batch.number)["Restarts"] != "0"  # noqa: E731
    wait_for("the end of the job", ends, 120)  # the job is no longer COMPLETING, so no process of the script can requeue it
    ended = slurm.job(batch.number)
    assert (ended["JobState"], ended["Restarts"]) == ("CANCELLED", "0"), batch.log()
    assert "not requeued" in batch.log(), batch.log()
    wait_for("the node to be idle", lambda: slurm.idle() == 2)
    assert slurm.job(batch.number)["JobState"] == "CANCELLED"
