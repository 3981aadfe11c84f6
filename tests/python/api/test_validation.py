"""Validation of checkpoints, its results in workers, and checkpoints that are stored in other ways."""

from __future__ import annotations

import os
import pathlib
import threading
import time

import pytest
from local_cluster import wait_for
from rtrain import train
from rtrain._http import Head
from rtrain.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    DataParallelTrainer,
    RunConfig,
    ScalingConfig,
    ValidationConfig,
    ValidationTaskConfig,
)
from rtrain.train._driver._submission import Submission
from rtrain.train._report import _bring
from rtrain.train._report._call import ReportCall
from rtrain.train._session._validations import answers
from rtrain.train._values._facts import Facts


def accuracy(checkpoint, plus=0, fails=False, hangs=False):
    if fails:
        raise ValueError("no such data")
    if hangs:
        import threading

        threading.Event().wait(600)
    return {"accuracy": checkpoint.to_dict()["epoch"] + plus}


def test_validated_metrics_join_the_checkpoint_s_and_decide_the_best(cluster):
    def loop():
        wishes = [True, ValidationTaskConfig(fn_kwargs={"plus": 10}), ValidationTaskConfig(fn_kwargs={"fails": True}), False]
        wishes.append(ValidationTaskConfig(fn_kwargs={"hangs": True}, timeout_s=1.5))
        for epoch, wish in enumerate(wishes):
            train.report({"epoch": epoch}, Checkpoint.from_dict({"epoch": epoch}), validation=wish)
        committed = train.get_all_reported_checkpoints(CheckpointConsistencyMode.COMMITTED)
        validated = train.get_all_reported_checkpoints()
        return len(committed), [(one.metrics["epoch"], one.status.value, one.metrics.get("accuracy")) for one in validated]

    result = DataParallelTrainer(
        loop,
        validation_config=ValidationConfig(fn=accuracy, task_config=ValidationTaskConfig(fn_kwargs={"plus": 1})),
        run_config=RunConfig(
            name=cluster.name("validated"), checkpoint_config=CheckpointConfig(checkpoint_score_attribute="accuracy")
        ),
    ).fit()
    assert result.return_value == (
        5,
        [
            (2, "VALIDATION_FAILED", None),
            (3, "COMMITTED", None),
            (4, "VALIDATION_TIMEOUT", None),
            (0, "VALIDATED", 1),
            (1, "VALIDATED", 11),
        ],
    )
    assert result.best_checkpoints[-1][1] == {"epoch": 1, "accuracy": 11}
    assert result.get_best_checkpoint("accuracy", "max").to_dict() == {"epoch": 1}


class CannotBeRead:
    def __reduce__(self):
        return __import__, ("a_module_that_only_the_worker_has",)


def test_a_validation_that_cannot_be_carried_out_fails_alone(cluster):
    def odd(checkpoint, does="", given=None):
        import subprocess
        import sys
        import threading

        if does == "exits":
            sys.exit(0)
        if does == "dies":
            os.kill(os.getpid(), 9)
        if does == "leaves":  # a process that inherits its standard error
            subprocess.Popen(["sleep", "20"])
        if does == "stays":
            subprocess.Popen(["sleep", "20"])
            threading.Event().wait()
        return {"accuracy": 1}

    def loop():
        wishes = [{"does": "exits"}, {"does": "dies"}, {"given": CannotBeRead()}, {"does": "stays"}, {"does": "leaves"}, {}]
        for epoch, given in enumerate(wishes):
            wish = ValidationTaskConfig(fn_kwargs=given, timeout_s=2 if given.get("does") == "stays" else None)
            train.report({"epoch": epoch}, Checkpoint.from_dict({"epoch": epoch}), validation=wish)
        reported = train.get_all_reported_checkpoints(timeout_s=90)
        return {one.metrics["epoch"]: one.status.value for one in reported}

    name = cluster.name("odd")
    result = DataParallelTrainer(loop, validation_config=ValidationConfig(fn=odd), run_config=RunConfig(name=name)).fit()
    failed, late, good = "VALIDATION_FAILED", "VALIDATION_TIMEOUT", "VALIDATED"
    assert result.return_value == {0: failed, 1: failed, 2: failed, 3: late, 4: good, 5: good}
    stored = sorted(answers(Head.current(), cluster.json("describe", name)["run_id"]).items())
    exits, dies, unread = (one["error"] for _, one in stored[:3])
    assert "ended its process (exit status 0) before it gave metrics" in exits
    assert "ended its process (signal 9)" in dies
    assert "a_module_that_only_the_worker_has" in unread


def test_a_head_that_is_away_for_a_moment_ends_no_training_that_asks_it(cluster, tmp_path):
    def loop(config):
        import pathlib
        import threading

        folder, context = pathlib.Path(config["folder"]), train.get_context()
        rank = context.get_world_rank()
        asked = {
            1: lambda: train.resize_info().max_workers,
            2: lambda: context.get_trial_resources()["CPU"],
            3: lambda: len(train.get_all_reported_checkpoints(CheckpointConsistencyMode.COMMITTED)),
        }
        train.report({"epoch": 0}, Checkpoint.from_dict({"epoch": 0}), checkpoint_upload_mode=CheckpointUploadMode.SYNC)
        (folder / f"here-{rank}").touch()
        while not (folder / "away").exists():
            threading.Event().wait(0.02)
        train.report({"epoch": 1}, Checkpoint.from_dict({"epoch": 1}), validation=rank == 0)
        if rank in asked:
            (folder / f"answer-{rank}").write_text(str(asked[rank]()))
        train.collective.barrier()
        return [one.status.value for one in train.get_all_reported_checkpoints()] if rank == 0 else None

    def restart():
        wait_for("all ranks", lambda: len(list(tmp_path.glob("here-*"))) == 4)
        cluster.daemons.kill("head")
        (tmp_path / "away").touch()
        threading.Event().wait(2)
        cluster.daemons.restart("head")

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        result = DataParallelTrainer(
            loop,
            train_loop_config={"folder": str(tmp_path)},
            validation_config=ValidationConfig(fn=accuracy),
            scaling_config=ScalingConfig(num_workers=4),
            run_config=RunConfig(name=cluster.name("asks"), storage_path=tmp_path / "runs"),
        ).fit()
    finally:
        thread.join()
    assert result.return_value == ["COMMITTED", "VALIDATED"]
    assert [(tmp_path / f"answer-{rank}").read_text() for rank in (1, 2, 3)] == ["4", "4.0", "2"]


def test_a_validation_runs_on_a_node_with_the_resources_asked_for(cluster):
    def there(checkpoint, **arguments):
        return {**accuracy(checkpoint, **arguments), "set": int(os.environ["ONLY_THERE"]), "run": os.environ["RTRAIN_RUN_ID"]}

    def loop():
        for epoch, given in enumerate(({}, {"fails": True}, {"hangs": True})):
            wish = ValidationTaskConfig(fn_kwargs=given, timeout_s=2.5 if given.get("hangs") else None)
            train.report({"epoch": epoch}, Checkpoint.from_dict({"epoch": epoch}), validation=wish)
        reported = train.get_all_reported_checkpoints()
        return [(one.status.value, one.metrics.get("set"), one.metrics.get("run")) for one in reported]

    options = {"num_cpus": 0.5, "name": cluster.name("there"), "runtime_env": {"env_vars": {"ONLY_THERE": "7"}}}
    result = DataParallelTrainer(
        loop,
        validation_config=ValidationConfig(fn=there, ray_remote_kwargs=options),
        run_config=RunConfig(name=cluster.name("trains")),
    ).fit()
    validated, failed, late = result.return_value
    assert (failed, late) == (("VALIDATION_FAILED", None, None), ("VALIDATION_TIMEOUT", None, None))
    assert validated[:2] == ("VALIDATED", 7)
    run = Head.current().get(f"/v1/runs/{validated[2]}")
    assert (run["name"], run["job"]["scaling"]["resources_per_worker"]["CPU"]) == (options["name"], "0.5")
    late = f"{options['name']}-3"  # a number is appended to a taken name
    wait_for("its end", lambda: cluster.json("describe", late)["state"] == "STOPPED")
    with pytest.raises(TypeError, match="has no option cpus"):
        ValidationConfig(fn=there, ray_remote_kwargs={"cpus": 1})


def test_ranks_that_wait_for_a_validation_without_a_driver_say_so(cluster):
    def loop():
        from rtrain.train._session import _reported

        _reported._SAY_AFTER_S = 0.2
        train.report({"epoch": 1}, Checkpoint.from_dict({"epoch": 1}), validation=True)
        train.report({"epoch": 2}, Checkpoint.from_dict({"epoch": 2}))
        return [one.metrics.get("accuracy") for one in train.get_all_reported_checkpoints()]

    name = cluster.name("alone")
    trainer = DataParallelTrainer(loop, validation_config=ValidationConfig(fn=accuracy), run_config=RunConfig(name=name))
    Submission(trainer, Head.current()).start()
    hint = (
        f"The driver validates: where none follows the run (fit() has ended, or was detached from), rtrain.train.attach({name!r})"
    )
    wait_for("what is waited for", lambda: hint in cluster.daemons.rtrain("logs", name, "--stream", "err"))
    assert train.attach(name).result().return_value == [1, None]


def test_what_waits_for_its_validation_is_kept_until_its_score_is_known(cluster):
    def loop():
        for epoch in range(3):
            train.report({"epoch": epoch}, Checkpoint.from_dict({"epoch": epoch}), validation=True)

    def worse_each_time(checkpoint):
        return {"accuracy": -checkpoint.to_dict()["epoch"]}

    keep = CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="accuracy")
    result = DataParallelTrainer(
        loop,
        validation_config=ValidationConfig(fn=worse_each_time),
        run_config=RunConfig(name=cluster.name("pending"), checkpoint_config=keep),
    ).fit()
    assert [metrics for _, metrics in result.best_checkpoints] == [{"epoch": 0, "accuracy": 0}]
    assert result.checkpoint.metrics == {"epoch": 2, "accuracy": -2}


def test_validation_needs_a_checkpoint_and_a_config(cluster):
    def loop():
        with pytest.raises(ValueError, match="needs a checkpoint"):
            train.report({}, validation=True)
        with pytest.raises(ValueError, match="needs a trainer with validation_config"):
            train.report({}, Checkpoint.from_dict({}), validation=True)
        return "refused"

    assert DataParallelTrainer(loop, run_config=RunConfig(name=cluster.name("refused"))).fit().return_value == "refused"


def test_files_brought_by_the_caller_or_in_place_are_committed_like_others(cluster, tmp_path):
    def loop():
        run_path = pathlib.Path(train.get_context().get_run_path())
        rank = train.get_context().get_world_rank()

        def bring(checkpoint, name):
            target = run_path / name
            target.mkdir(exist_ok=True)
            with checkpoint.as_directory() as directory:
                (target / f"brought-{rank}").write_text(",".join(sorted(os.listdir(directory))))
            return Checkpoint(str(target))

        directory = pathlib.Path("mine")
        directory.mkdir()
        (directory / "weights").write_text("w")
        train.report({"step": 1}, Checkpoint.from_directory(directory), checkpoint_upload_fn=bring)
        placed = run_path / "placed"
        if rank == 0:
            placed.mkdir()
            (placed / "shard").write_text("s")
        mode = CheckpointUploadMode.NO_UPLOAD
        train.report({"step": 2}, Checkpoint(str(placed)) if rank == 0 else None, checkpoint_upload_mode=mode)
        with pytest.raises(ValueError, match="does not lie in the run's directory"):
            train.report({}, Checkpoint.from_directory(directory), checkpoint_upload_mode=mode)
        train.report({"step": 3}, Checkpoint.from_directory(directory), checkpoint_upload_mode=CheckpointUploadMode.SYNC)
        with pytest.raises(ValueError, match="is a committed checkpoint of this run, and stays one"):
            train.report({}, train.get_checkpoint(), checkpoint_upload_mode=mode)
        return train.get_checkpoint().metrics

    result = DataParallelTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("brought"), storage_path=tmp_path / "runs"),
    ).fit()
    assert result.return_value == {"step": 3}
    brought, placed, sync = (
        sorted(p.name for p in pathlib.Path(c.path).iterdir() if p.name[0] != ".") for c, _ in result.best_checkpoints
    )
    assert (brought, placed, sync) == (["brought-0", "brought-1"], ["shard"], ["weights"])
    stayed = [c.path for c, _ in result.best_checkpoints][:2]
    assert stayed == [f"{result.path}/{name}" for name in ("checkpoint_r000001-a001", "placed")]


@pytest.mark.parametrize("placement", ["STRICT_PACK", "STRICT_SPREAD"])
def test_files_that_a_slow_rank_still_puts_into_a_directory_of_the_run_come_along(cluster, tmp_path, placement):
    def loop():
        run_path = pathlib.Path(train.get_context().get_run_path())
        rank = train.get_context().get_world_rank()

        def fill(directory):
            directory.mkdir(exist_ok=True)
            done = run_path / f"rank-0-has-done-{directory.name}"
            if rank == 0:
                (directory / "of-0").write_text("0")
                done.touch()
                return Checkpoint(str(directory))
            part = directory / "part"
            part.write_text("1")
            until = time.monotonic() + 60
            while not done.exists() and time.monotonic() < until:
                threading.Event().wait(0.01)
            threading.Event().wait(1)  # rank 0 waits in its report
            part.rename(directory / "of-1")
            return Checkpoint(str(directory))

        placed = CheckpointUploadMode.NO_UPLOAD
        for step in (1, 2):
            train.report({"step": step}, fill(run_path / f"placed-{step}"), checkpoint_upload_mode=placed)
        with pytest.raises(ValueError, match=r"placed-1 is (a committed checkpoint of this run|the directory of another report)"):
            train.report({}, Checkpoint(str(run_path / "placed-1")), checkpoint_upload_mode=placed)
        for step, waits in ((3, None), (4, None), (5, CheckpointUploadMode.SYNC)):
            train.report(
                {"step": step},
                Checkpoint.from_dict({"step": step}),
                "step",
                checkpoint_upload_mode=waits,
                checkpoint_upload_fn=lambda _, name: fill(run_path / name),
            )
        assert (run_path / "step-5-a001" / ".manifest.json").exists()

    runs = tmp_path / "runs"
    result = DataParallelTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2, placement_strategy=placement),
        run_config=RunConfig(name=cluster.name("slow"), storage_path=runs),
    ).fit()
    kept = [
        (c.name, sorted(p.name for p in pathlib.Path(c.path).iterdir() if p.name != ".manifest.json"))
        for c, _ in result.best_checkpoints
    ]
    assert kept == [(name, ["of-0", "of-1"]) for name in ("placed-1", "placed-2", "step", "step-4-a001", "step-5-a001")]
    assert all(c.path == f"{result.path}/{c.name}" for c, _ in result.best_checkpoints)
    assert cluster.json("checkpoints", "verify", result.path)["sound"] is True


def test_an_async_report_s_function_runs_behind_the_loop_and_its_error_fails_the_run(cluster, tmp_path):
    def loop(config):
        run_path = pathlib.Path(train.get_context().get_run_path())
        rank = train.get_context().get_world_rank()
        returned = {step: threading.Event() for step in (1, 2)}

        def bring(checkpoint, name):
            step = checkpoint.to_dict()["step"]
            assert returned[step].wait(60), "report() waits for its checkpoint_upload_fn"
            if config["fails"]:
                raise ConnectionResetError("the bucket is gone")
            target = run_path / name
            target.mkdir(exist_ok=True)
            with checkpoint.as_directory() as directory:
                (target / f"brought-{rank}").write_text(",".join(sorted(os.listdir(directory))))
            return Checkpoint(str(target))

        for step in (1, 2):
            if rank == 1 and step == 2:
                train.report({"step": step})  # the other rank's report is still under way
                continue
            own = Checkpoint.from_dict({"step": step})
            train.report({"step": step}, own, checkpoint_upload_mode=CheckpointUploadMode.ASYNC, checkpoint_upload_fn=bring)
            returned[step].set()
            own = None  # its directory stays until the function has read it

    def fit(*, fails):
        return DataParallelTrainer(
            loop,
            train_loop_config={"fails": fails},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name=cluster.name("behind"), storage_path=tmp_path / "runs"),
        ).fit()

    result = fit(fails=False)
    assert [row["step"] for row in result.all_metrics] == [1, 2]
    kept = [sorted(p.name for p in pathlib.Path(c.path).iterdir() if p.name[0] != ".") for c, _ in result.best_checkpoints]
    assert kept == [["brought-0", "brought-1"], ["brought-0"]]
    with pytest.raises(
        train.WorkerGroupError, match="report 1, checkpoint_000001: checkpoint_upload_fn failed behind the loop"
    ) as caught:
        fit(fails=True)
    assert "ConnectionResetError: the bucket is gone" in str(caught.value)


def test_files_in_place_need_a_run_directory_that_is_a_path(cluster, tmp_path):
    def never(checkpoint, name):
        raise AssertionError("uploaded for nothing")

    def loop():
        messages = []
        given = [
            {"checkpoint_upload_mode": CheckpointUploadMode.NO_UPLOAD},
            {"checkpoint_upload_fn": never},
            {"checkpoint": "s3://bucket/run/checkpoint", "checkpoint_upload_mode": CheckpointUploadMode.NO_UPLOAD},
        ]
        for one in given:
            with pytest.raises(ValueError) as caught:
                train.report({}, **{"checkpoint": Checkpoint.from_dict({}), **one})
            messages.append(str(caught.value))
        return train.get_context().get_run_path(), messages

    place, messages = DataParallelTrainer(loop, run_config=RunConfig(name=cluster.name("place"))).fit().return_value
    path = f"works where the run's directory is a path that the nodes mount, and this run's is {place}: "
    assert place.startswith("cluster://")
    assert messages[0].startswith(f"CheckpointUploadMode.NO_UPLOAD {path}") and messages[1].startswith(
        f"checkpoint_upload_fn {path}"
    )
    assert messages[2].startswith("the checkpoint s3://bucket/run/checkpoint is not a directory on this machine: ")
    call = ReportCall("{}", str(tmp_path), upload_fn=never)
    with pytest.raises(ValueError, match="and this run's is s3://bucket/run: "):
        _bring.prepared(call, Facts(run_path="s3://bucket/run"), 1, lambda: "")


def test_the_worker_s_own_directory_as_a_checkpoint_leaves_the_code_behind(cluster, tmp_path, driver):
    name, storage = cluster.name("dot"), tmp_path / "runs"
    script = f"""
        import os
        from rtrain import train
        from rtrain.train import Checkpoint, DataParallelTrainer, FailureConfig, RunConfig, ScalingConfig
        os.mkdir("checkpoints")
        for leftover in ("model.pt", "out.log", "checkpoints/epoch-1.pt", "checkpoints/epoch-2.pt"):
            with open(leftover, "w") as out:
                out.write("by hand")
        def loop():
            rank = train.get_context().get_world_rank()
            assert open("helper.py").read() == "x = 1\\n", "what lies beside the script is found by its name"
            for came in ("model.pt", "checkpoints/epoch-1.pt"):
                assert open(came).read() == "by hand", "neither another rank nor the attempt before wrote to it"
            assert not os.path.exists("own.pt"), "of another rank, or of the attempt before"
            train.collective.barrier()
            for name in ("model.pt", f"model-{{rank}}.pt", "own.pt", "checkpoints/epoch-2.pt", f"checkpoints/new-{{rank}}.pt"):
                with open(name, "w") as out:
                    out.write(f"m{{rank}}")
            train.collective.barrier()
            for name in ("model.pt", "own.pt", "checkpoints/epoch-2.pt"):
                assert open(name).read() == f"m{{rank}}"
            train.report({{}}, Checkpoint.from_directory("."))
            train.flush()
            assert train.get_context().get_attempt() == 2, "once more"
        DataParallelTrainer(loop, scaling_config=ScalingConfig(num_workers=2), run_config=RunConfig(name="{name}",
            storage_path="{storage}", failure_config=FailureConfig(max_failures=1))).fit()
        """
    process = driver(script, helper="x = 1\n")
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    checkpoints = sorted((storage / name).glob("checkpoint_*"))
    assert len(checkpoints) == 2
    for checkpoint in checkpoints:
        files = (p for p in checkpoint.rglob("*") if p.is_file() and p.name[0] != ".")
        kept = {str(p.relative_to(checkpoint)): p.read_text() for p in files}
        of_both = {"model.pt": "m0", "own.pt": "m0", "checkpoints/epoch-2.pt": "m0"}
        own = {f"{where}-{rank}.pt": f"m{rank}" for rank in (0, 1) for where in ("model", "checkpoints/new")}
        assert kept == {**of_both, **own}, checkpoint
