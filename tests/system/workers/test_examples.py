"""Tests the Python examples as users run them: as a script, against a real cluster or without one. The nodes join with
--warm, which makes the test a quarter shorter: later workers of the same environment are forked, as the last test checks.
"""

import json
import os
import re
import subprocess
import sys

import pytest
from local_cluster import ROOT, RTRAIN, WarmCluster

EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = WarmCluster(tmp_path_factory.mktemp("cluster") / "c", nodes=2, resources="CPU=1")
    yield made
    made.stop()


def run(script, *options, env, program=(sys.executable,)):
    """Runs the example; returns the end of its output."""
    paths = {"PYTHONPATH": str(ROOT / "runtime" / "python"), "OMP_NUM_THREADS": "1"}
    command = [*program, str(EXAMPLES / script), *map(str, options)]
    done = subprocess.run(command, env={**env, **paths}, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_part_1_trains_a_resnet_on_two_workers(cluster, tmp_path):
    printed = run("tutorial/part1_images.py", "--width", 8, "--epochs", 2, "--storage", tmp_path, env=cluster.env)
    assert "after 2 epochs" in printed and float(printed.split("accuracy ")[1].split()[0]) > 0.5, printed


def test_the_quick_start_fits_a_line_on_two_workers(cluster):
    printed = run("quickstart/train.py", env=cluster.env)
    assert "'epoch': 49" in printed and float(printed.split("'loss': ")[1].split("}")[0].split(",")[0]) < 0.1, printed


@pytest.mark.parametrize("reader", ["dataset", "data"])
def test_part_2_reads_each_row_of_the_parquet_files_on_one_worker(cluster, tmp_path, reader):
    options = ("--width", 8, "--epochs", 1, "--storage", tmp_path, "--data", tmp_path / "digits", "--reader", reader)
    printed = run("tutorial/part2_parquet.py", *options, env=cluster.env)
    assert "from 718 rows on each worker" in printed, printed  # the last one of 1,437 rows is left out


def test_part_3_recovers_is_taken_up_again_and_answers_from_an_actor(cluster, tmp_path):
    printed = run("tutorial/part3_recovery.py", "--width", 8, "--epochs", 2, "--storage", tmp_path, env=cluster.env)
    assert "in attempt 2" in printed and "taken up again: epoch 2" in printed, printed
    assert float(printed.split("the actor names ")[1].split()[0]) > 0.5, printed


def test_the_first_program_of_the_quick_starts_trains_where_there_is_no_cluster(tmp_path):
    text = (ROOT / "docs" / "quickstart.md").read_text()
    (tmp_path / "train.py").write_text(text.split("```python\n")[1].split("```")[0])
    alone = {name: value for name, value in os.environ.items() if not name.startswith("RTRAIN_")}
    alone |= {"HOME": str(tmp_path), "RTRAIN_BINARY": str(RTRAIN), "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"}
    printed = run(tmp_path / "train.py", env=alone)
    assert float(printed.split("'loss': ")[1].split("}")[0]) < 0.01, printed


def test_an_elastic_run_takes_the_room_there_is(cluster, tmp_path):
    printed = run("elastic/train.py", "--epochs", 2, "--storage", tmp_path, env=cluster.env)
    assert "epoch 1: loss" in printed and "28 steps of 64 on " in printed, printed


def test_one_script_runs_in_this_process_under_torchrun_and_on_a_cluster(cluster, tmp_path):
    alone = {name: value for name, value in os.environ.items() if not name.startswith("RTRAIN_")}
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    assert "weight 3.0" in run("anywhere/train.py", "--storage", tmp_path / "a", env=alone)
    assert "on 2 rank(s)" in run("anywhere/train.py", "--storage", tmp_path / "b", env=alone, program=torchrun)
    assert "on 2 rank(s)" in run("anywhere/train.py", "--workers", 2, "--storage", tmp_path / "c", env=cluster.env)


def test_a_sweep_finds_a_learning_rate_and_ends_bad_trials_early(cluster, tmp_path):
    printed = run("tune/tune_digits.py", "--samples", 4, "--epochs", 4, "--storage", tmp_path, env=cluster.env)
    assert float(printed.split("best of 4: accuracy ")[1].split()[0]) > 0.8, printed
    assert "epochs were trained of 16" in printed and "the best model was saved after epoch" in printed, printed


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("parameter_server", r"y = (2\.9|3\.0)\d x \+ -(0\.9|1\.0)\d after 400 updates"),
        ("tree_of_actors", r"4 leaves, total 22, \[4, 5, 6, 7\]"),
        ("monte_carlo_pi", r"all thrown: pi is about 3\.1[345]\d"),
        ("rate_limiter", r"16 requests, at most (\d|1[0-6]) in half a second"),
        ("streaming_generator", r"squares of 1000 rows: 332833500, begins with \[0, 1, 2\]; ONE WORD AT A TIME"),
        ("map_reduce", r"the 5, is 3, queue 3, and 2"),
        ("web_crawler", r"6 pages: / /a /b /c /d /missing; broken: /missing"),
        ("cross_validation", r"the best is 5"),
        ("producers_consumers", r"40 items, \{0: 20, 1: 20\} by producer, in order: True"),
    ],
)
def test_a_program_of_tasks_and_actors_prints_its_result(cluster, program, printed):
    last = run(f"tasks/{program}.py", env=cluster.env).splitlines()[-1]
    assert re.fullmatch(printed, last), last


def test_a_language_model_is_sharded_and_goes_on_where_a_worker_died(cluster, tmp_path):
    """Runs the commands of the example's README in order. The second one starts a new run, which the last one resumes."""
    if not hasattr(pytest.importorskip("torch").cpu.Stream, "record_event"):
        pytest.skip("this PyTorch shards on GPUs only")
    options = ("--save-every", 20, "--data", tmp_path / "bytes", "--storage", tmp_path)
    first = run("llm/train.py", "--steps", 20, *options, env=cluster.env)
    assert "after 20 steps, in attempt 1" in first, first
    printed = run("llm/train.py", "--steps", 60, "--fail-at", 30, "--name", "llm", *options, env=cluster.env)
    assert "goes on after step 20" in printed and "after 60 steps, in attempt 2" in printed, printed
    assert float(printed.split("loss ")[-1].split()[0]) < 4.0, printed  # random bytes would give 5.5
    saved = max((tmp_path / "llm").glob("checkpoint_*"))
    assert len(list(saved.glob("*.distcp"))) == 2, list(saved.iterdir())  # one shard of each rank
    more = run("llm/train.py", "--steps", 80, "--name", "llm", *options, env=cluster.env)
    assert "goes on after step 60" in more and "after 80 steps" in more, more
    # No temporary files remain beside the data.
    assert len(list((tmp_path / "bytes").iterdir())) == 1, list((tmp_path / "bytes").iterdir())


def test_a_language_model_on_a_mesh_goes_on_with_another_mesh(cluster, tmp_path):
    """Each rank's files are written behind the loop. Four ranks save, two load: the loss is that of a run without an end between."""
    if not hasattr(pytest.importorskip("torch").cpu.Stream, "record_event"):
        pytest.skip("this PyTorch shards on GPUs only")
    cluster.join("node-3", "CPU=4")
    options = ("--save-every", 2, "--storage", tmp_path)
    run("llm/train_parallel.py", "--dp", 2, "--tp", 2, "--steps", 4, "--name", "mesh", *options, env=cluster.env)
    saved = max((tmp_path / "mesh").glob("checkpoint_*"))
    assert len(list(saved.glob("__*.distcp"))) == 4, list(saved.iterdir())  # each rank's own
    resumed = run("llm/train_parallel.py", "--dp", 1, "--tp", 2, "--steps", 6, "--name", "mesh", *options, env=cluster.env)
    assert "goes on after step 4 on {'dp': 1, 'tp': 2}" in resumed, resumed
    whole = run("llm/train_parallel.py", "--dp", 1, "--tp", 1, "--steps", 6, "--name", "whole", *options, env=cluster.env)
    losses = [float(printed.split("loss ")[-1].split()[0]) for printed in (resumed, whole)]
    assert losses[0] == pytest.approx(losses[1], abs=2e-5) and 3 < losses[0] < 6, losses


def test_the_readme_says_how_many_weights_the_model_has():
    small = json.loads((EXAMPLES / "llm" / "small.json").read_text())
    script = "import json, sys; sys.path.insert(0, sys.argv[1]); from gpt import GPT, Config; import torch; torch.set_default_device('meta'); "
    script += "print(sum(one.numel() for one in GPT(Config(**json.loads(sys.argv[2]))).parameters()))"
    counted = subprocess.run(
        [sys.executable, "-c", script, EXAMPLES / "llm", json.dumps(small)], capture_output=True, text=True, check=True
    )
    assert f"{round(int(counted.stdout) / 1e6)} million weights" in (EXAMPLES / "llm" / "README.md").read_text(), counted.stdout


def test_workers_of_the_examples_were_forked(cluster):
    starts = [event["text"] for event in cluster.json("events")["items"] if event["kind"] == "WorkerStarts"]
    assert any("forked from a warm template" in start for start in starts), starts
    assert any("a plain start" in start for start in starts), starts
