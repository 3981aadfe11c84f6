"""Tests real trainings with Transformers, Lightning and XGBoost on a cluster, two workers each: reports, files, resuming."""

import json
import pathlib
import subprocess
import sys

import pytest
from jobs_on_disk import write_job
from local_cluster import ROOT, LocalCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("cluster") / "c", nodes=1, resources="CPU=2")
    yield made
    made.stop()


def trained(cluster, folder, example, *options, env, step="step", **fields):
    """Runs an example with two workers and its storage in `folder`. Returns its checkpoints with their manifests, ordered by
    step.
    """
    path = write_job(
        folder, example, ["python", "train.py"], 2, working_dir=str(ROOT / "examples" / example),
        storage_path=str(folder / "storage"), env={**env, "OMP_NUM_THREADS": "1"}, **fields,
    )  # fmt: skip
    cluster.rtrain("submit", path, *options)
    cluster.wait_state(example, "SUCCEEDED", "FAILED")
    assert cluster.json("describe", example)["state"] == "SUCCEEDED", cluster.rtrain("logs", example, "--rank", "all")
    return manifests(folder / "storage" / example, step)


def manifests(run, step):
    entries = [(path.parent, json.loads(path.read_text())) for path in run.glob("*/.manifest.json")]
    return sorted(entries, key=lambda entry: entry[1]["metrics"][step])


def files(checkpoint):
    return {str(path.relative_to(checkpoint)) for path in pathlib.Path(checkpoint).rglob("*") if path.is_file()}


def driven(cluster, folder, epochs):
    """Runs the Transformers example, which is a driver. Returns its output and its run's checkpoints."""
    command = [sys.executable, str(ROOT / "examples/transformers/train.py"), "--epochs", str(epochs), "--storage", str(folder)]
    done = subprocess.run(command, env={**cluster.env, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout, manifests(folder / "transformers", "step")


def test_a_transformers_trainer_reports_each_save_with_every_ranks_files_and_resumes(cluster, tmp_path):
    printed, checkpoints = driven(cluster, tmp_path, 2)
    assert "after epoch 2" in printed and float(printed.split("accuracy ")[1].split()[0]) > 0.5
    assert [manifest["metrics"]["epoch"] for _, manifest in checkpoints] == [1, 2]
    names = ("model.safetensors", "trainer_state.json", "optimizer.pt", "rng_state_0.pth", "rng_state_1.pth")
    assert {f"checkpoint/{name}" for name in names} <= files(checkpoints[-1][0])
    printed, checkpoints = driven(cluster, tmp_path, 3)
    assert "after epoch 3" in printed
    assert [manifest["metrics"]["epoch"] for _, manifest in checkpoints] == [1, 2, 3]  # the second call trained only epoch 3


def test_lightning_reports_each_epoch_divides_the_data_and_resumes(cluster, tmp_path):
    checkpoints = trained(cluster, tmp_path, "lightning", env={"EPOCHS": "2"})
    assert [manifest["metrics"]["epoch"] for _, manifest in checkpoints] == [0, 1]
    assert checkpoints[0][1]["metrics"]["step"] == 23  # 1,438 digits on two ranks in batches of 32
    assert files(checkpoints[-1][0]) == {"checkpoint.ckpt", ".manifest.json"}
    again = trained(cluster, tmp_path, "lightning", "--resume", env={"EPOCHS": "3"})
    assert [manifest["metrics"]["step"] for _, manifest in again] == [23, 46, 69]
    assert again[-1][1]["metrics"]["accuracy"] > 0.5


def test_xgboost_grows_the_same_trees_on_two_halves_of_the_data(cluster, tmp_path):
    pytest.importorskip("xgboost")
    checkpoints = trained(cluster, tmp_path, "xgboost", env={"ROUNDS": "5"}, backend={"name": "xgboost"}, step="round")
    assert files(checkpoints[-1][0]) == {"model.json", ".manifest.json"}
    assert checkpoints[-1][1]["metrics"]["error"] < 0.2
    assert "5 rounds on 2 workers" in cluster.rtrain("logs", "xgboost", "--rank", "0")


def test_accelerate_trains_by_ddp_as_a_script_and_sharded_in_fit(cluster, tmp_path):
    script = ROOT / "examples/accelerate/train.py"
    plain = cluster.run("run", "-n", 2, "--set", "env.OMP_NUM_THREADS=1", script.relative_to(ROOT), "--epochs", "1")
    assert plain.returncode == 0 and "by DistributedDataParallel" in plain.stdout, f"{plain.stdout}\n{plain.stderr}"
    command = [sys.executable, str(script), "--fit", "--shard", "--storage", str(tmp_path)]
    outputs = []
    for options in (["--epochs", "1"], ["--epochs", "2", "--workers", "1"]):
        environment = {**cluster.env, "OMP_NUM_THREADS": "1"}
        done = subprocess.run([*command, *options], env=environment, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        outputs.append(done.stdout)
    assert "epoch 0: accuracy" in outputs[0] and "by FSDPSequential" in outputs[0], outputs[0]
    assert "goes on with epoch 1 on 1 ranks" in outputs[1], outputs[1]
    accuracies = [float(printed.rsplit("accuracy ", 1)[1].split()[0]) for printed in outputs]
    assert accuracies[0] < accuracies[1] and accuracies[1] > 0.7, outputs
    assert {"__0_0.distcp", "__1_0.distcp"} <= files(manifests(tmp_path / "accelerate", "epoch")[0][0])


MEET = """
import json, os, socket
from rtrain.train import collective
config = json.loads(os.environ["TF_CONFIG"])
places = [(host, int(port)) for host, port in (address.rsplit(":", 1) for address in config["cluster"]["worker"])]
me = config["task"]["index"]
mine = socket.create_server(places[me])
collective.barrier()
if me == 0:
    print("met", mine.accept()[0].recv(9).decode())
else:
    socket.create_connection(places[0], 20).sendall(b"worker 1")
collective.barrier()
"""


def test_workers_of_tensorflow_reach_each_other_by_tf_config(cluster, tmp_path):
    path = write_job(tmp_path, "meet", ["python", "-c", MEET], 2, backend={"name": "tensorflow"})
    done = cluster.run("submit", path, "-f")
    assert (done.returncode, done.stdout) == (0, "rank 0 | met worker 1\n"), done.stderr
