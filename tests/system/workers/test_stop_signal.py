"""Tests that SIGTERM reaches the process of a rank that trains, and neither its data loader's processes nor the shell around
it. A loop with `DataLoader(num_workers=2)` can save at a stop, a drain, a preemption and a resize.
"""

import json
import pathlib
import shlex
import subprocess
import sys
import time

import pytest
from jobs_on_disk import JOBS, write_job
from local_cluster import LocalCluster, wait_for

PROGRAM = str(JOBS / "loader_saves.py")
RANKS = 2


class WithQueue(LocalCluster):
    """A cluster whose only queue preempts runs for urgent ones."""

    def start_head(self):
        queues = self.folder / "queues.yaml"
        queues.write_text(json.dumps({"version": 1, "preemption_grace": "3s", "queues": {"default": {"preempt": True}}}))
        self.start("head", "head", "start", "--port", self.port, "--data", self.folder / "head", "--queues", queues)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = WithQueue(tmp_path_factory.mktemp("stops") / "c", nodes=1, resources="CPU=4")
    yield made
    made.stop()


def submit(cluster, folder, name, entrypoint, workers=RANKS, **fields):
    cluster.rtrain("submit", write_job(folder, name, entrypoint, workers, limits={"stop_grace": "60s"}, **fields))
    wait_for(f"the loaders of {name}", lambda: len(list(folder.glob("reads-*-0"))) == workers, 120)


def saved(folder, attempt=0):
    return sorted(file.name for file in folder.glob(f"saved-*-{attempt}"))


def all_saved(ranks=RANKS, attempt=0):
    return [f"saved-{rank}-{attempt}" for rank in range(ranks)]


def stop(cluster, name):
    began = time.monotonic()
    cluster.rtrain("stop", name, "--wait")
    assert time.monotonic() - began < 40, "nothing was left to be killed at the end of the grace"
    assert cluster.json("describe", name)["state"] == "STOPPED"


WRAPPER = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)"
SILENT = "silent"  # argument for a program that does not report, so that no process is its rank's reporting process
ENTRYPOINTS = {
    "plain": lambda folder: ["python", PROGRAM, folder],
    "plain-silent": lambda folder: ["python", PROGRAM, folder, SILENT],
    "shell": lambda folder: ["sh", "-c", f"python {PROGRAM} {shlex.quote(folder)}; exit $?"],
    "cd": lambda folder: f"cd {shlex.quote(str(JOBS))} && python loader_saves.py {shlex.quote(folder)}",
    "cd-silent": lambda folder: f"cd {shlex.quote(str(JOBS))} && python loader_saves.py {shlex.quote(folder)} {SILENT}",
    "nested-shells": lambda folder: ["bash", "-c", f"sh -c 'python {PROGRAM} {folder} {SILENT}; exit $?'; exit $?"],
    "wrapper": lambda folder: ["python", "-c", WRAPPER, PROGRAM, folder],
    "shell-and-wrapper": lambda folder: ["sh", "-c", f"python -c '{WRAPPER}' {PROGRAM} {folder}; exit $?"],
    "script": lambda folder: [script(folder), folder],
}


def script(folder):
    """Writes a script with a shebang line: the kernel names its process `train`, not `sh`."""
    path = pathlib.Path(folder) / "train"
    path.write_text(f'#!/bin/sh\npython {PROGRAM} "$1"\nexit $?\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("kind", ENTRYPOINTS)
def test_a_loop_with_a_loader_saves_at_a_stop(cluster, tmp_path, kind):
    submit(cluster, tmp_path, kind, ENTRYPOINTS[kind](str(tmp_path)))
    stop(cluster, kind)
    assert saved(tmp_path) == all_saved(), cluster.rtrain("logs", kind)
    assert "DataLoader worker" not in cluster.rtrain("logs", kind)


DRIVER = """
import sys
from rtrain.train import DataParallelTrainer, RunConfig, ScalingConfig

def loop(config):
    import runpy
    import sys
    sys.argv = ["loader_saves.py", config["folder"]]
    runpy.run_path(config["program"], run_name="__main__")

DataParallelTrainer(loop, train_loop_config={"program": sys.argv[1], "folder": sys.argv[2]},
                    scaling_config=ScalingConfig(num_workers=2), run_config=RunConfig(name="fit")).fit()
"""


def test_a_fit_loop_with_a_loader_saves_at_a_stop(cluster, tmp_path):
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    with open(tmp_path / "driver.log", "w") as log:
        process = subprocess.Popen([sys.executable, driver, PROGRAM, tmp_path], env=cluster.env, stdout=log, stderr=log)
    try:
        wait_for("both loaders", lambda: len(list(tmp_path.glob("reads-*-0"))) == RANKS, 120)
        stop(cluster, "fit")
        assert saved(tmp_path) == all_saved(), cluster.rtrain("logs", "fit")
        process.wait(60)
    finally:
        process.kill()


def test_torchrun_as_an_entrypoint_gets_the_signal_itself(cluster, tmp_path):
    # torchrun sends SIGTERM to the process groups of its ranks, and waits for them.
    program = f"{sys.executable} -m torch.distributed.run --nproc-per-node 2 --standalone {PROGRAM} {tmp_path} {SILENT} alone"
    cluster.rtrain("submit", write_job(tmp_path, "torchrun", program.split(), 1, limits={"stop_grace": "60s"}))
    wait_for("both loaders", lambda: len(list(tmp_path.glob("reads-*-0"))) == 2, 120)
    stop(cluster, "torchrun")
    assert saved(tmp_path) == all_saved(), cluster.rtrain("logs", "torchrun")
    assert "got signal: 15" in cluster.rtrain("logs", "torchrun")


def test_an_agent_that_was_restarted_knows_the_process_below_the_wrapper(cluster, tmp_path):
    submit(cluster, tmp_path, "adopted", ENTRYPOINTS["shell-and-wrapper"](str(tmp_path)))
    cluster.kill("node-1")
    cluster.restart("node-1")
    wait_for("the node", lambda: cluster.ready_nodes() == 1)
    stop(cluster, "adopted")
    assert saved(tmp_path) == all_saved(), cluster.rtrain("logs", "adopted")


def test_what_a_shell_leaves_running_is_killed_at_the_end_of_the_grace(cluster, tmp_path):
    ignores = "import signal, pathlib; signal.signal(signal.SIGTERM, lambda *_: pathlib.Path('{0}/asked').touch()); " \
              "pathlib.Path('{0}/up').touch(); signal.pause(); signal.pause()"  # fmt: skip
    entry = ["sh", "-c", f"python -c {shlex.quote(ignores.format(tmp_path))}; exit 0"]
    cluster.rtrain("submit", write_job(tmp_path, "stays", entry, 1, limits={"stop_grace": "2s"}))
    wait_for("the program", lambda: (tmp_path / "up").exists())
    cluster.rtrain("stop", "stays", "--wait")
    assert (tmp_path / "asked").exists()


def test_a_loop_with_a_loader_saves_at_a_preemption(cluster, tmp_path):
    submit(
        cluster, tmp_path, "polite", ENTRYPOINTS["cd"](str(tmp_path)), priority=10, scaling={"resources_per_worker": {"CPU": 2}}
    )
    urgent = write_job(tmp_path, "urgent", ["true"], 1, priority=90, scaling={"resources_per_worker": {"CPU": 4}})
    cluster.rtrain("submit", urgent)
    cluster.wait_state("urgent", "SUCCEEDED")
    assert saved(tmp_path) == all_saved(), cluster.rtrain("logs", "polite")
    cluster.rtrain("stop", "polite", "--now", "--wait")


def test_a_loop_with_a_loader_saves_at_a_resize(cluster, tmp_path):
    submit(cluster, tmp_path, "resized", ENTRYPOINTS["plain"](str(tmp_path)))
    cluster.rtrain("resize", "resized", 1, "--deadline", "1s")
    wait_for("the next attempt", lambda: (tmp_path / "reads-0-1").exists(), 120)
    assert saved(tmp_path) == all_saved(), cluster.rtrain("logs", "resized")
    cluster.rtrain("stop", "resized", "--now", "--wait")


def test_a_loop_with_a_loader_saves_at_a_drain(cluster, tmp_path):
    submit(cluster, tmp_path, "drained", ENTRYPOINTS["cd-silent"](str(tmp_path)))
    cluster.rtrain("node", "drain", "node-1", "--deadline", "1s")
    wait_for("both files", lambda: saved(tmp_path) == all_saved(), 60)
    cluster.rtrain("node", "undrain", "node-1")
    cluster.rtrain("stop", "drained", "--now", "--wait")
