"""Trackers fed by report(): one tracker run over all attempts, no step twice after a restart, and a failure of theirs is not
the run's."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest
from homes import Home

# Six reports. The third one has the checkpoint. The first attempt dies after the fifth.
LOOP = """
import os, sys
import rtrain.train

checkpoint = rtrain.train.get_checkpoint()
start = 1
if checkpoint:
    start = int(open(checkpoint.path + "/step").read()) + 1
for step in range(start, 7):
    metrics = {"loss": 1.0 / step, "attempt": rtrain.train.get_context().get_attempt(), "val": {"acc": step}, "word": "w"}
    if step == 3:
        with rtrain.train.checkpoint_dir() as folder:
            open(folder + "/step", "w").write(str(step))
            rtrain.train.report(metrics, checkpoint=folder, checkpoint_upload_mode=rtrain.train.CheckpointUploadMode.SYNC)
    else:
        rtrain.train.report(metrics)
    if step == 5 and not checkpoint:
        raise RuntimeError("as planned")
"""


def run(home: Home, trackers: str, loop: str = LOOP, **variables: str) -> pathlib.Path:
    """Returns the run's directory after a run of two attempts on a separate cluster."""
    (home.folder / "code").mkdir()
    (home.folder / "code" / "train.py").write_text(loop)
    job = {
        "version": 1,
        "name": "tracked",
        "entrypoint": [sys.executable, "train.py"],
        "working_dir": "code",
        "storage_path": str(home.folder / "runs"),
        "failure": {"max_failures": 1, "backoff": "10ms..10ms"},
        "scaling": {"workers": 1},
        "tracking": {name: True for name in trackers.split()},
        "env": {"PYTHONPATH": home.environment["PYTHONPATH"], **variables},
    }
    (home.folder / "job.yaml").write_text(json.dumps(job))
    out = home.script("""
        import os, subprocess
        import rtrain
        rtrain.init(num_cpus=1)
        done = subprocess.run([os.environ["RTRAIN_BINARY"], "submit", "job.yaml", "-f"], capture_output=True, text=True)
        print(done.stdout + done.stderr)
        shown = subprocess.run([os.environ["RTRAIN_BINARY"], "describe", "tracked"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr + shown.stdout
    """)
    (home.folder / "said").write_text(out)
    return home.folder / "runs" / "tracked"


def test_tensorboard_has_each_step_once(home: Home) -> None:
    pytest.importorskip("tensorboard")
    folder = run(home, "tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seen = EventAccumulator(str(folder / "tensorboard"))
    seen.Reload()
    assert [(one.step, one.value) for one in seen.Scalars("attempt")] == [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2)]
    assert [round(one.value * one.step) for one in seen.Scalars("loss")] == [1] * 6
    assert "val/acc" in seen.Tags()["scalars"]


def test_mlflow_has_one_run(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    folder = run(home, "mlflow")
    client = mlflow.MlflowClient((folder / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("tracked")
    runs = client.search_runs([experiment.experiment_id])
    assert [one.info.run_name for one in runs] == ["tracked"]
    assert runs[0].info.status == "FINISHED"
    points = client.get_metric_history(runs[0].info.run_id, "attempt")
    assert sorted((one.step, one.value) for one in points) == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 2)]


def test_wandb_has_one_run_offline(home: Home) -> None:
    pytest.importorskip("wandb")
    folder = run(home, "wandb", WANDB_MODE="offline", WANDB_SILENT="true")
    offline = sorted((folder / "wandb").glob("offline-run-*"))
    assert len(offline) == 2, list(folder.iterdir())
    assert len({one.name.split("-")[-1] for one in offline}) == 1  # one id: `wandb sync` makes one run of them
    steps = [step for one in offline for step in wandb_steps(one)]
    assert sorted(steps) == [1, 2, 3, 4, 5, 6]


def wandb_steps(folder: pathlib.Path) -> list[int]:
    """Steps in W&B's own file: a log of protobuf records in blocks of 32 KiB, each with a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    data = next(folder.glob("*.wandb")).read_bytes()
    records, at, whole = [], 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or its last piece
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            whole = b""
            if record.WhichOneof("record_type") == "history":
                records.append(record.history.step.num)
    return records


def test_a_loop_that_logs_itself_gets_the_same_run_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    loop = LOOP.replace(
        "checkpoint = rtrain.train.get_checkpoint()",
        """
from rtrain.integrations.mlflow import setup_mlflow
mlflow = setup_mlflow({"lr": 0.1}, experiment_name="mine", tags={"team": "x"})
checkpoint = rtrain.train.get_checkpoint()""",
    ).replace(
        "    if step == 3:",
        """
    mlflow.log_metrics({"own": step}, step=step)
    if step == 3:""",
    )
    folder = run(home, "", loop)
    client = mlflow.MlflowClient((folder / "mlruns").as_uri())
    runs = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert len(runs) == 1
    assert runs[0].data.params == {"lr": "0.1"}
    points = client.get_metric_history(runs[0].info.run_id, "own")
    assert sorted(one.step for one in points) == [1, 2, 3, 4, 5, 6]


def test_a_trackers_failure_is_not_the_runs(home: Home) -> None:
    pytest.importorskip("mlflow")
    run(home, "mlflow", MLFLOW_TRACKING_URI="file:///proc/no/such/place")
    assert "mlflow gets no more metrics of this run, which goes on" in (home.folder / "said").read_text()
