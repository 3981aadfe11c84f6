"""Tests a job's `setup:` on a real node: it runs once, in a virtual environment, with a separate log stream. Also tests what
a follower is shown.
"""

import zipfile

import pytest
from jobs_on_disk import write_job
from local_cluster import LocalCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("setup") / "cluster", nodes=1, resources="CPU=20")
    yield made
    made.stop()


def make_wheel(folder, name, text):
    """Writes a package as a wheel that `pip` installs without a network or a build."""
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", f"TEXT = {text!r}\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_what_setup_installs_is_there_for_the_workers_and_is_kept(cluster, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    make_wheel(code, "greeting_of_setup", "installed")
    (code / "train.py").write_text("import greeting_of_setup, numpy, sys\nprint(greeting_of_setup.TEXT, sys.prefix)\n")
    fields = {
        "working_dir": "code",
        "setup": f"echo again >> {tmp_path}/count; pip install --no-index ./*.whl; echo made > made.txt",
    }
    entrypoint = "python train.py && cat made.txt"
    for name in ("first", "second"):
        cluster.rtrain("submit", write_job(tmp_path, name, entrypoint, workers=2, **fields))
        state = cluster.wait_state(name, "SUCCEEDED", "FAILED")
        assert state and cluster.json("describe", name)["state"] == "SUCCEEDED", cluster.rtrain("describe", name)
        lines = cluster.rtrain("logs", name, "--rank", "1", "--stream", "out")
        assert lines.startswith("installed ") and "/setups/" in lines and lines.endswith("made\n")
    assert (tmp_path / "count").read_text() == "again\n", "the second run found what the first had made"
    assert "Successfully installed" in cluster.rtrain("logs", "first", "--stream", "setup")
    assert "done before on this node" in cluster.rtrain("logs", "second", "--stream", "setup")
    (tmp_path / "plain.py").write_text("import greeting_of_setup\n")
    cluster.rtrain("submit", write_job(tmp_path, "without", ["python", str(tmp_path / "plain.py")]))
    assert cluster.wait_state("without", "FAILED"), "without the setup the package is not there"


def test_a_setup_that_fails_ends_the_run_with_its_last_lines(cluster, tmp_path):
    path = write_job(tmp_path, "broken", "true", setup="echo cannot find it; exit 4", failure={"max_failures": 3})
    done = cluster.run("submit", path, "-f")
    assert done.returncode == 1
    facts = cluster.json("describe", "broken")
    assert facts["state"] == "FAILED" and facts["attempts"] == 1, "what fails for good is not tried again"
    assert "exit code 4" in facts["reason"] and "cannot find it" in facts["reason"]
    assert "cannot find it" in cluster.rtrain("logs", "broken", "--stream", "setup")


def test_a_run_is_stopped_while_its_setup_hangs(cluster, tmp_path):
    cluster.rtrain("submit", write_job(tmp_path, "hanging", "true", setup="echo begun; exec tail -f /dev/null"))
    cluster.rtrain("events", "--run", "hanging")
    cluster.rtrain("stop", "hanging")
    assert cluster.wait_state("hanging", "STOPPED", seconds=120)


def test_logs_show_says_which_ranks_a_follower_sees(cluster, tmp_path):
    script = 'echo "line of $RANK"; test "$RANK" != 1 || exit "${CODE:-0}"'
    few = cluster.run("submit", write_job(tmp_path, "few", script, workers=3), "-f").stdout
    assert sorted(few.splitlines()) == [f"rank {rank} | line of {rank}" for rank in range(3)]
    many = cluster.run("submit", write_job(tmp_path, "many", script, workers=17), "-f").stdout
    assert many == "rank 0 | line of 0\n", "of more than 16 ranks, rank 0 is shown"
    chosen = write_job(tmp_path, "chosen", script, workers=3, logs={"show": "1-2"})
    assert sorted(cluster.run("submit", chosen, "-f").stdout.splitlines()) == ["rank 1 | line of 1", "rank 2 | line of 2"]
    assert cluster.run("submit", write_job(tmp_path, "quiet", script, workers=2, logs={"show": "none"}), "-f").stdout == ""
    failed = write_job(tmp_path, "failing", script, workers=2, env={"CODE": "5"}, logs={"show": "failed"})
    assert cluster.run("submit", failed, "-f").stdout == "rank 1 | line of 1\n"
    again = cluster.run("logs", "many", "-f", "--rank", "all").stdout
    assert len(again.splitlines()) == 17, "what is asked for goes before what the job says"
