"""A custom storage_filesystem with a real cluster: nodes store records, workers copy files."""

from __future__ import annotations

import json
import pathlib

import pytest
from rtrain import train, tune
from rtrain.train import Checkpoint, CheckpointConfig, DataParallelTrainer, FailureConfig, Result, RunConfig, ScalingConfig
from rtrain.train._run_directory import _elsewhere

pytest.importorskip("pyarrow.fs")
pytest.importorskip("fsspec")


def bucket(folder: pathlib.Path):
    from fsspec.implementations.dirfs import DirFileSystem
    from fsspec.implementations.local import LocalFileSystem

    folder.mkdir(exist_ok=True)
    return DirFileSystem(str(folder), LocalFileSystem())


def directories(folder: pathlib.Path) -> list[str]:
    return sorted(one.name[: len("checkpoint_000001")] for one in folder.iterdir() if one.is_dir())


@pytest.mark.parametrize("on_a_path", [False, True])
def test_two_ranks_bring_files_fail_go_on_and_the_driver_reads_them(cluster, tmp_path, on_a_path):
    def loop():
        rank, attempt = train.get_context().get_world_rank(), train.get_context().get_attempt()
        before = train.get_checkpoint()
        begun = 0
        if before:
            with before.as_directory() as folder:
                assert (pathlib.Path(folder) / f"of-{1 - rank}").read_text() == "2"  # the other rank's file
                begun = int((pathlib.Path(folder) / f"of-{rank}").read_text())
        for step in range(begun + 1, 5):
            with train.checkpoint_dir() as folder:
                (pathlib.Path(folder) / f"of-{rank}").write_text(str(step))
                (pathlib.Path(folder) / "same").write_text(f"rank {rank}")
                train.report({"step": step}, Checkpoint.from_directory(folder), "best" if step == 3 else None)
            assert train.get_checkpoint().metrics["step"] == step
            if step == 2 and attempt == 1:
                raise KeyError("as planned")
        assert [one.metrics["step"] for one in train.get_all_reported_checkpoints()][-2:] == [3, 4]
        return begun

    given, name = bucket(tmp_path / "bucket"), cluster.name("elsewhere")
    config = RunConfig(
        name,
        "prefix/runs",
        given,
        failure_config=FailureConfig(max_failures=1),
        checkpoint_config=CheckpointConfig(num_to_keep=2),
        records_path=tmp_path / "records" if on_a_path else None,
    )
    result = DataParallelTrainer(loop, scaling_config=ScalingConfig(num_workers=2), run_config=config).fit()
    assert result.return_value == 2 and (result.path, result.filesystem) == (f"prefix/runs/{name}", given)
    assert given.info(f"{result.checkpoint.path}/of-0")["size"] == 1
    kept_at = result._run_path
    assert kept_at.startswith(str(tmp_path / "records") if on_a_path else "cluster://")
    top = tmp_path / "bucket" / "prefix" / "runs" / name
    assert json.loads((top / ".rtrain-run.json").read_text())["run_path"] == kept_at
    _elsewhere._known.clear()
    for path in (f"prefix/runs/{name}", kept_at):
        result = Result.from_path(path, storage_filesystem=given)
        assert [metrics["step"] for _, metrics in result.best_checkpoints] == [3, 4]
        with result.checkpoint.as_directory() as folder:
            files = {one.name: one.read_text() for one in pathlib.Path(folder).iterdir()}
        assert files == {"of-0": "4", "of-1": "4", "same": "rank 0"}
        _elsewhere._known.clear()
    # The kept checkpoints, both reported by the second attempt.
    assert directories(top) == ["checkpoint_000001", "checkpoint_000002"]
    with pytest.raises(RuntimeError, match="which this process was not given"):
        result.checkpoint.to_dict()


def test_a_run_is_restored_with_its_file_system(cluster, tmp_path):
    def loop():
        before = train.get_checkpoint()
        begun = before.to_dict()["step"] if before else 0
        train.report({"step": begun + 1}, Checkpoint.from_dict({"step": begun + 1}))
        return begun

    config = RunConfig(cluster.name("elsewhere"), "runs", bucket(tmp_path / "bucket"))
    first = DataParallelTrainer(loop, run_config=config).fit()
    assert first.return_value == 0 and first.checkpoint.to_dict() == {"step": 1}
    _elsewhere._known.clear()
    again = DataParallelTrainer.restore(first.path, storage_filesystem=bucket(tmp_path / "bucket")).fit()
    assert again.return_value == 1 and again.checkpoint.to_dict() == {"step": 2}
    other = DataParallelTrainer(
        lambda: train.get_checkpoint().to_dict(),
        run_config=RunConfig(cluster.name("from")),
        resume_from_checkpoint=again.checkpoint,
    ).fit()
    assert other.return_value == {"step": 2}


def test_a_run_below_a_folder_of_a_file_system_is_shown_there_in_driver_workers_and_callbacks(cluster, tmp_path):
    fs = pytest.importorskip("pyarrow.fs")
    given = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    shown = []

    class RecordsPaths(train.UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            shown.append((checkpoint.path, checkpoint.filesystem))

    def loop():
        train.report({"step": 1}, Checkpoint.from_dict({"step": 1}), validation=True)
        kept = train.get_all_reported_checkpoints()
        return train.get_checkpoint().path, [one.checkpoint.path for one in kept], train.get_checkpoint().filesystem

    def judged(checkpoint):
        return {"path": checkpoint.path}

    name = cluster.name("below")
    result = DataParallelTrainer(
        loop,
        run_config=RunConfig(name, "runs", given, callbacks=[RecordsPaths()]),
        validation_config=train.ValidationConfig(judged),
    ).fit()
    path = f"runs/{name}/{result.checkpoint.name}"
    assert result.return_value == (path, [path], given) and shown == [(path, given)]
    assert (result.path, result.filesystem, result.checkpoint.path) == (f"runs/{name}", given, path)
    assert result.best_checkpoints[-1][1]["path"] == path
    assert result.checkpoint.to_dict() == {"step": 1} and (tmp_path / path).is_dir()

    def trial(config):
        train.report({"x": config["x"]}, Checkpoint.from_dict({"x": config["x"]}))
        return {"path": train.get_checkpoint().path}

    sweep = cluster.name("below")
    grid = tune.Tuner(
        trial,
        param_space={"x": tune.grid_search([1, 2])},
        run_config=tune.RunConfig(name=sweep, storage_path="runs", storage_filesystem=given, verbose=0),
    ).fit()
    restored = tune.Tuner.restore(f"runs/{sweep}", trial, storage_filesystem=given).get_results()
    for results in (grid, restored):
        for one in results:
            assert one.path == f"runs/{sweep}/{sweep}-{one.trial_id}" and one.filesystem == given
            assert one.checkpoint.path == one.metrics["path"] == f"{one.path}/{one.checkpoint.name}"
            assert one.checkpoint.to_dict() == {"x": one.config["x"]}
