"""Checkpoints that a loop stores deeper in the run's directory, with real daemons. They stay there, under their path
from the run.
"""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from local_cluster import wait_for
from rtrain import train
from rtrain._http import Head, HeadError
from rtrain.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointUploadMode,
    DataParallelTrainer,
    Result,
    RunConfig,
    ScalingConfig,
    ValidationConfig,
)
from rtrain.train._run_directory._reading import RemoteDirectory, manifests


def a_loop():
    """Travels by value."""

    def loop(config):
        """Reports three directories in their place and one that its own function lays out, then writes on in the last."""
        run_path = pathlib.Path(train.get_context().get_run_path())
        rank = train.get_context().get_world_rank()
        start = train.get_checkpoint()
        if start is not None:
            with start.as_directory() as directory:
                return start.name, start.path, sorted(one.name for one in pathlib.Path(directory).glob("of-*"))

        def fill(directory):
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"of-{rank}").write_text(str(rank))
            return Checkpoint(str(directory))

        mode = CheckpointUploadMode.NO_UPLOAD
        for epoch in (1, 2, 3):
            place = run_path / "epochs" / str(epoch) / "ckpt"
            train.report({"epoch": epoch}, fill(place), checkpoint_upload_mode=mode)
            assert train.get_checkpoint().path == str(place)
            (place.parent / "notes").write_text("beside it")
        (run_path / "epochs" / "3" / "ckpt" / "part").mkdir(exist_ok=True)
        for place, why in (("epochs", "holds checkpoints"), ("epochs/3/ckpt/part", "lies in"), ("epochs/3/ckpt", "stays one")):
            with pytest.raises(ValueError, match=why):
                train.report({}, Checkpoint(str(run_path / place)), checkpoint_upload_mode=mode)
        train.report({"epoch": 4}, Checkpoint.from_dict({}), checkpoint_upload_fn=lambda _, name: fill(run_path / "mine" / name))
        train.flush()
        kept = [(one.checkpoint.name, one.checkpoint.path) for one in train.get_all_reported_checkpoints()]
        assert kept == [(name, f"{run_path}/{name}") for name, _ in kept]
        return [name for name, _ in kept]

    return loop


def states_of(cluster, run):
    return [one["state"] for one in cluster.json("checkpoints", "list", run)["items"]]


@pytest.mark.parametrize("placement", ["STRICT_PACK", "STRICT_SPREAD"])
def test_directories_deeper_in_the_run_are_checkpoints_where_they_lie(cluster, tmp_path, placement):
    name = cluster.name("deeper")

    def fit() -> Result:
        return DataParallelTrainer(
            a_loop(),
            train_loop_config={},
            scaling_config=ScalingConfig(num_workers=2, placement_strategy=placement),
            run_config=RunConfig(name=name, storage_path=tmp_path / "runs", checkpoint_config=CheckpointConfig(3)),
        ).fit()

    result = fit()
    run = pathlib.Path(result.path)
    names = ["epochs/2/ckpt", "epochs/3/ckpt", "mine/checkpoint_r000004-a001"]
    assert result.return_value == names
    assert [(one.name, one.path) for one, _ in result.best_checkpoints] == [(one, f"{run}/{one}") for one in names]
    assert json.loads((run / names[2] / ".manifest.json").read_text())["directory"] == names[2]

    wait_for("the deletion", lambda: not (run / "epochs" / "1" / "ckpt").exists(), seconds=60)
    # Files beside a checkpoint belong to the user.
    assert [one.name for one in (run / "epochs" / "1").iterdir()] == ["notes"]
    assert (run / "names" / "epochs" / "1" / "ckpt").is_file()  # a name is used once

    assert cluster.json("describe", name)["latest_checkpoint"] == names[2]
    for named in (name, run):
        listed = [(one["directory"], one["path"]) for one in cluster.json("checkpoints", "list", named)["items"]]
        assert listed == [(one, f"{run}/{one}") for one in names]
        assert cluster.json("checkpoints", "inspect", f"{named}@{names[0]}")["directory"] == names[0]
    shown = cluster.json("checkpoints", "inspect", f"{run}/{names[2]}")
    assert (shown["directory"], [one["path"] for one in shown["files"]]) == (names[2], ["of-0", "of-1"])
    assert states_of(cluster, name) == ["not verified"] * 3
    assert cluster.json("checkpoints", "verify", name)["sound"] is True
    assert states_of(cluster, name) == ["ok"] * 3

    (run / "epochs" / "2" / "ckpt" / "of-1").write_text("later")
    assert cluster.daemons.run("checkpoints", "verify", f"{name}@{names[0]}").returncode == 1
    assert states_of(cluster, name) == ["damaged" if one == names[0] else "ok" for one in names]
    assert fit().return_value == (names[2], f"{run}/{names[2]}", ["of-0", "of-1"])
    (run / names[2] / "of-0").write_text("later")  # damaged, so the checkpoint before it is restored
    assert fit().return_value == (names[1], f"{run}/{names[1]}", ["of-0", "of-1"])
    moved = shutil.copytree(run, tmp_path / "moved" / name)
    assert [one.name for one, _ in Result.from_path(moved).best_checkpoints] == names


def test_the_head_gives_out_deeper_checkpoints_and_nothing_beside_them(cluster, tmp_path):
    result = DataParallelTrainer(
        a_loop(),
        train_loop_config={},
        run_config=RunConfig(name=cluster.name("through"), storage_path=tmp_path / "runs"),
    ).fit()
    run = pathlib.Path(result.path)
    unclaimed = run / "epochs" / "copy"
    shutil.copytree(run / "epochs" / "1" / "ckpt", unclaimed)
    head = Head.current()
    (record,) = head.items("/v1/runs", {"name": run.name, "all": True})
    through_the_head = RemoteDirectory(str(run), head, f"/v1/runs/{record['run_id']}/files")
    assert through_the_head.names("epochs/1") == ["epochs/1/ckpt/.manifest.json", "epochs/1/ckpt/of-0"]
    assert through_the_head.names("epochs/copy") == []
    assert sorted(manifests(through_the_head)) == sorted(one.name for one, _ in result.best_checkpoints)
    assert through_the_head.read("epochs/1/ckpt/of-0") == b"0"
    for beside in ("epochs/1/notes", "epochs/copy/of-0", "epochs/1/ckpt"):
        with pytest.raises(FileNotFoundError):
            through_the_head.read(beside)
    with pytest.raises(HeadError, match="is no path below the run's directory"):
        through_the_head.read("epochs/../run.json")


def scored(checkpoint):
    with checkpoint.as_directory() as directory:
        return {"score": float((pathlib.Path(directory) / "of-0").read_text())}


def test_a_deeper_checkpoint_is_validated_and_the_best_is_kept(cluster, tmp_path):
    def loop():
        run_path = pathlib.Path(train.get_context().get_run_path())
        for epoch, score in enumerate((0.5, 0.9, 0.1)):
            place = run_path / "épochs, %" / str(epoch)
            place.mkdir(parents=True)
            (place / "of-0").write_text(str(score))
            train.report(
                {"epoch": epoch}, Checkpoint(str(place)), checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD, validation=True
            )
        return [(one.checkpoint.name, one.status.value, one.metrics["score"]) for one in train.get_all_reported_checkpoints()]

    result = DataParallelTrainer(
        loop,
        validation_config=ValidationConfig(fn=scored),
        run_config=RunConfig(
            name=cluster.name("judged"),
            storage_path=tmp_path / "runs",
            checkpoint_config=CheckpointConfig(1, checkpoint_score_attribute="score"),
        ),
    ).fit()
    assert result.return_value[-1] == ("épochs, %/1", "VALIDATED", 0.9)
    assert (result.best_checkpoints[0][0].name, result.best_checkpoints[0][1]["score"]) == ("épochs, %/1", 0.9)
