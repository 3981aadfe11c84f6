"""num_workers=0: all of rtrain.train in one process. A cluster can read the directory."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from homes import Home

TRAIN = """
import contextlib, os, pathlib, sys
import rtrain
import rtrain.train as train
from rtrain.train import CheckpointConfig, DataParallelTrainer, RunConfig, ScalingConfig

def loop(config):
    checkpoint = train.get_checkpoint()
    start = 0
    if checkpoint:
        with checkpoint.as_directory() as folder:
            start = int(open(folder + "/epoch").read()) + 1
    print("starts at", start)
    for epoch in range(start, config["epochs"]):
        with train.checkpoint_dir() as folder:
            open(folder + "/epoch", "w").write(str(epoch))
            train.report({"epoch": epoch, "loss": 1 / (epoch + 1)}, checkpoint=train.Checkpoint.from_directory(folder))
        if config.get("fails") == epoch:
            raise KeyError("as planned")
    return config["epochs"]

def fit(**config):
    latest = config.pop("keep_latest", "always")
    keep = CheckpointConfig(2, checkpoint_score_attribute="loss", checkpoint_score_order="max", keep_latest=latest)
    return DataParallelTrainer(
        loop,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=0),
        run_config=RunConfig(name="here", checkpoint_config=keep),
    ).fit()
"""


def test_a_run_in_one_process_and_on_from_it(home: Home) -> None:
    out = home.script(
        TRAIN
        + """
result = fit(epochs=3)
print(result.metrics["epoch"], result.return_value, os.path.basename(result.checkpoint.path), len(result.all_metrics))
print([metrics["epoch"] for _, metrics in result.best_checkpoints])
result = fit(epochs=3)
print(result.metrics["epoch"], len(result.all_metrics))
result = fit(epochs=5)
print(result.metrics["epoch"], len(result.all_metrics))
again = DataParallelTrainer.restore(result.path, train_loop_config={"epochs": 6}).fit()
print(again.metrics["epoch"], again.path == result.path)
print("torch" in sys.modules, rtrain.is_initialized())
"""
    )
    assert out.splitlines() == [
        "starts at 0",
        "2 3 checkpoint_000003-a001 3",
        "[1, 0]",  # the best one is last; the latest is kept beside the best ones
        "starts at 3",
        "2 3",
        "starts at 3",
        "4 5",
        "starts at 5",
        "5 True",
        "False False",
    ]
    folder = home.folder / "rtrain_results" / "here"
    shown = json.loads(home.rtrain("checkpoints", "list", str(folder), "-o", "json"))["items"]
    assert shown and all(one["metrics"]["loss"] for one in shown)
    home.rtrain("checkpoints", "verify", str(folder))


PROJECT = """
import os, pathlib
import helper
from rtrain import train
from rtrain.train import Checkpoint, DataParallelTrainer, RunConfig, ScalingConfig

def loop(config):
    start = train.get_checkpoint().to_dict()["epoch"] + 1 if train.get_checkpoint() else 0
    for epoch in range(start, config["epochs"]):
        train.report({"epoch": helper.named(epoch)}, Checkpoint.from_dict({"epoch": epoch}))

DataParallelTrainer(
    loop,
    train_loop_config={"epochs": 2},
    scaling_config=ScalingConfig(num_workers=0),
    run_config=RunConfig(name="here", storage_path=pathlib.Path(__file__).parent / "results"),
).fit()
"""
RESTORE = """
import sys
from rtrain.train import DataParallelTrainer

print(DataParallelTrainer.can_restore(sys.argv[1]))
result = DataParallelTrainer.restore(sys.argv[1], train_loop_config={"epochs": int(sys.argv[2])}).fit()
print([row["epoch"] for row in result.all_metrics], result.path)
"""


def project(home: Home) -> pathlib.Path:
    folder = home.folder / "project"
    folder.mkdir()
    (folder / "helper.py").write_text("def named(epoch):\n    return f'epoch {epoch}'\n")
    return folder


def test_a_project_s_run_is_restored_from_its_directory_alone_wherever_that_is(home: Home) -> None:
    folder = project(home)
    run = folder / "results" / "here"
    home.script(PROJECT, name="project/train.py")
    out = home.script(RESTORE, str(run), "3", name="elsewhere.py")  # the modules of its loop are not in this folder
    assert out.splitlines() == ["True", f"['epoch 0', 'epoch 1', 'epoch 2'] {run}"]
    moved = home.folder / "kept" / "under-another-name"
    shutil.copytree(run, moved)
    shutil.rmtree(folder)
    out = home.script(RESTORE, f"{moved}/", "4", name="elsewhere.py")
    assert out.splitlines() == ["True", f"['epoch 0', 'epoch 1', 'epoch 2', 'epoch 3'] {moved}"]
    assert not folder.exists()


def test_runs_are_no_part_of_the_project_and_of_its_archives_the_newest_stays(home: Home) -> None:
    folder = project(home)
    kept = []
    for _ in range(2):
        driver = home.start(PROJECT, name="project/train.py")
        _, err = driver.communicate(timeout=120)
        assert "travels along: 2 files" in err, err
        kept.append([one.name for one in (folder / "results" / "here" / "code").iterdir()])
    assert kept[0] == kept[1]
    home.script(PROJECT + "\nprint('changed')\n", name="project/train.py")
    changed = [one.name for one in (folder / "results" / "here" / "code").iterdir()]
    assert len(changed) == len(kept[0]) == 1 and changed != kept[0]


def test_what_cannot_be_kept_for_restore_is_said(home: Home) -> None:
    with (project(home) / "data.bin").open("wb") as data:
        data.truncate(600 << 20)
    driver = home.start(PROJECT, name="project/train.py")
    _, err = driver.communicate(timeout=120)
    assert driver.returncode == 0
    assert "does not keep this training function, so restore() cannot go on with it" in err
    assert "most MiB are in the folder itself 600; name what stays behind in" in err
    assert "here cannot be restored" in home.script(RESTORE, str(home.folder / "project/results/here"), "3", expect=1)


def test_an_older_run_without_its_code_is_restored_with_the_function_alone(home: Home) -> None:
    run = project(home) / "results" / "here"
    home.script(PROJECT, name="project/train.py")
    shutil.rmtree(run / "code")
    output = home.script(RESTORE, str(run), "3", expect=1)
    assert "ValueError" in output and "Give restore() the function, as train_loop_per_worker=" in output
    out = home.script(
        TRAIN + "print(DataParallelTrainer.restore(sys.argv[1], train_loop_per_worker=lambda: None).fit().path)", str(run)
    )
    assert out == f"{run}\n"


def test_a_run_goes_on_though_a_process_of_its_loop_lives_and_a_beginning_failed(home: Home) -> None:
    out = home.script(
        TRAIN
        + """
from rtrain.train._workers import _tracking
reader, writer = os.pipe()

def loop():
    if os.fork() == 0:
        os.read(reader, 1)
        os._exit(0)

def once():
    DataParallelTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=RunConfig(name="here")).fit()

start, errors = _tracking.start, []
once()
_tracking.start = lambda *_: 1 / 0
try:
    once()
except ZeroDivisionError as error:
    errors.append(error)  # and with it every frame of that fit()
_tracking.start = start
once()
os.write(writer, b"  ")
print("twice")
"""
    )
    assert out == "twice\n"


def test_restore_keeps_the_checkpoint_to_begin_with(home: Home) -> None:
    out = home.script(
        TRAIN
        + """
def loop(config):
    if not config:
        raise KeyError("as planned")
    print("begins with", train.get_checkpoint().path)

trainer = DataParallelTrainer(
    loop,
    scaling_config=ScalingConfig(num_workers=0),
    run_config=RunConfig(name="tuned", storage_path="runs"),
    resume_from_checkpoint=train.Checkpoint("/models/large"),
)
with contextlib.suppress(KeyError):
    trainer.fit()
DataParallelTrainer.restore("runs/tuned", train_loop_config={"go": True}).fit()
"""
    )
    assert out == "begins with /models/large\n"


def test_a_name_that_is_used_again_leaves_what_is_committed_as_it_is(home: Home) -> None:
    out = home.script(
        TRAIN
        + """
def loop():
    start = train.get_checkpoint()
    if start:
        print("goes on from", start.name)
    for epoch in range(3):
        with train.checkpoint_dir() as folder:
            open(folder + "/epoch", "w").write(str(epoch))
            train.report({"epoch": epoch}, checkpoint=folder, checkpoint_dir_name="latest")

def fit():
    return DataParallelTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=RunConfig(name="again")).fit()

for result in fit(), fit():
    for checkpoint, metrics in result.best_checkpoints:
        with checkpoint.as_directory() as folder:
            print(checkpoint.name, metrics["epoch"], open(folder + "/epoch").read())
"""
    )
    first = ["latest 0 0", "latest-2-a001 1 1", "latest-3-a001 2 2"]
    second = ["latest-a002 0 0", "latest-2-a002 1 1", "latest-3-a002 2 2"]
    assert out.splitlines() == ["goes on from latest-3-a001", *first, *first, *second]
    home.rtrain("checkpoints", "verify", str(home.folder / "rtrain_results" / "again"))


def test_files_in_the_run_stay_where_they_are(home: Home) -> None:
    out = home.script(
        TRAIN
        + """
def loop():
    run = pathlib.Path(train.get_context().get_run_path())
    for epoch in range(2):
        (run / f"mine-{epoch}").mkdir()
        (run / f"mine-{epoch}" / "epoch").write_text(str(epoch))
        train.report({"epoch": epoch}, train.Checkpoint(str(run / f"mine-{epoch}")), checkpoint_upload_mode=train.CheckpointUploadMode.NO_UPLOAD)
    try:
        train.report({}, train.Checkpoint(str(run / "mine-0")), checkpoint_upload_mode=train.CheckpointUploadMode.NO_UPLOAD)
    except ValueError as error:
        print("stays one" in str(error))

name = RunConfig(name="placed")
result = DataParallelTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=name).fit()
print([(one.path == f"{result.path}/{one.name}", one.name) for one, _ in result.best_checkpoints])
"""
    )
    assert out.splitlines() == ["True", "[(True, 'mine-0'), (True, 'mine-1')]"]
    home.rtrain("checkpoints", "verify", str(home.folder / "rtrain_results" / "placed"))


def test_directories_deeper_in_the_run_are_its_checkpoints(home: Home) -> None:
    script = (
        TRAIN
        + """
def loop():
    run = pathlib.Path(train.get_context().get_run_path())
    start = train.get_checkpoint()
    print("starts from", start and start.name)
    first = 1 + (start.metrics["epoch"] if start else 0)
    for epoch in range(first, first + 3):
        place = run / "epochs" / str(epoch) / "ckpt"
        place.mkdir(parents=True)
        (place / "epoch").write_text(str(epoch))
        (place.parent / "notes").write_text("beside it")
        train.report({"epoch": epoch}, train.Checkpoint(str(place)), checkpoint_upload_mode=train.CheckpointUploadMode.NO_UPLOAD)
        assert train.get_checkpoint().path == str(place)

def fit():
    keep = CheckpointConfig(2)
    return DataParallelTrainer(
        loop, scaling_config=ScalingConfig(num_workers=0), run_config=RunConfig(name="deeper", checkpoint_config=keep)
    ).fit()
result = fit()
print([one.name for one, _ in result.best_checkpoints], result.checkpoint.path == f"{result.path}/epochs/3/ckpt")
"""
    )
    out = home.script(script).splitlines()
    assert out == ["starts from None", "['epochs/2/ckpt', 'epochs/3/ckpt'] True"]
    run = home.folder / "rtrain_results" / "deeper"
    # Files beside it belong to the user.
    assert sorted(path.name for path in (run / "epochs" / "1").iterdir()) == ["notes"]
    home.rtrain("checkpoints", "verify", str(run))
    shown = json.loads(home.rtrain("checkpoints", "list", str(run), "-o", "json"))["items"]
    assert [(one["directory"], one["path"]) for one in shown] == [
        (f"epochs/{epoch}/ckpt", f"{run}/epochs/{epoch}/ckpt") for epoch in (2, 3)
    ]
    for named in (f"{run}@epochs/2/ckpt", f"{run}/epochs/2/ckpt", f"file://{run}@epochs/2/ckpt"):
        assert json.loads(home.rtrain("checkpoints", "inspect", named, "-o", "json"))["directory"] == "epochs/2/ckpt"
    (run / "epochs" / "3" / "ckpt" / "epoch").write_text("4")  # changed after its report: damaged, so never restored
    home.rtrain("checkpoints", "verify", f"{run}@epochs/3/ckpt", expect=1)
    looks = """
def loop():
    print("starts from", train.get_checkpoint().name)

DataParallelTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=RunConfig(name="deeper")).fit()
"""
    assert "starts from epochs/2/ckpt" in home.script(TRAIN + looks)


def test_the_latest_goes_with_success_when_so_asked(home: Home) -> None:
    out = home.script(
        TRAIN
        + """
with contextlib.suppress(KeyError):
    fit(epochs=4, fails=2, keep_latest="until_success")
print(sorted(one.name for one in pathlib.Path("~/rtrain_results/here").expanduser().glob("checkpoint*")))
result = fit(epochs=4, keep_latest="until_success")
print([metrics["epoch"] for _, metrics in result.best_checkpoints], result.checkpoint.metrics["epoch"])
"""
    )
    kept = [f"checkpoint_{report:06d}-a001" for report in (1, 2, 3)]
    assert out.splitlines() == ["starts at 0", str(kept), "starts at 3", "[1, 0] 1"]


def test_errors_are_raw_and_the_run_goes_on_after_them(home: Home) -> None:
    out = home.script(
        TRAIN
        + """
try:
    fit(epochs=4, fails=1)
except KeyError as error:
    print("raised", error)
print(fit(epochs=4).metrics["epoch"])
"""
    )
    assert out.splitlines() == ["starts at 0", "raised 'as planned'", "starts at 2", "3"]
    ends = [
        json.loads(one.read_text())["state"] for one in sorted((home.folder / "rtrain_results/here/attempts").rglob("end.json"))
    ]
    assert ends == ["FAILED", "SUCCEEDED"]


def test_every_call_works(home: Home) -> None:
    out = home.script("""
        import rtrain.train as train
        from rtrain.train import DataParallelTrainer, RunConfig, ScalingConfig, UserCallback

        class Told(UserCallback):
            def after_report(self, run_context, metrics, checkpoint):
                print("told", metrics[0]["n"], checkpoint is None)

        def loop():
            context = train.get_context()
            print(context.get_world_size(), context.get_world_rank(), context.get_experiment_name())
            print(list(train.get_dataset_shard("train")), train.should_checkpoint(), train.get_preemption_info())
            train.collective.barrier()
            print(train.collective.broadcast_from_rank_zero({"a": 1}), train.resize_info().world_size)
            for n in range(10):
                train.report({"n": n})
            print("not reached")

        result = DataParallelTrainer(
            loop,
            datasets={"train": [1, 2, 3]},
            scaling_config=ScalingConfig(num_workers=0),
            run_config=RunConfig(name="calls", storage_path="runs", stop={"n": 2}, callbacks=[Told()]),
        ).fit()
        print(result.metrics, train.get_all_reported_checkpoints is not None)
        try:
            train.report({})
        except RuntimeError as error:
            print("outside" in str(error))
    """)
    assert out.splitlines() == [
        "1 0 calls",
        "[1, 2, 3] False None",
        "{'a': 1} 1",
        "told 0 True",
        "told 1 True",
        "told 2 True",
        "{'n': 2} True",
        "True",
    ]


def test_validation_and_files_of_what_is_printed(home: Home) -> None:
    out = home.script("""
        import sys
        import rtrain.train as train
        from rtrain.train import Checkpoint, CheckpointConfig, DataParallelTrainer, RunConfig, ScalingConfig, ValidationConfig
        from rtrain.train import ValidationTaskConfig

        def accuracy(checkpoint, plus=0):
            if plus < 0:
                raise ValueError("no such data")
            return {"accuracy": checkpoint.to_dict()["epoch"] + plus}

        def loop():
            wishes = [ValidationTaskConfig(fn_kwargs={"plus": 10}), True, ValidationTaskConfig(fn_kwargs={"plus": -1}), True, False]
            for epoch, wish in enumerate(wishes):
                train.report({"epoch": epoch}, Checkpoint.from_dict({"epoch": epoch}), validation=wish)
            print("printed in the loop")
            print("to the other stream", file=sys.stderr)
            return [(one.metrics["epoch"], one.status.value) for one in train.get_all_reported_checkpoints()]

        def fit():
            return DataParallelTrainer(
                loop,
                scaling_config=ScalingConfig(num_workers=0),
                validation_config=ValidationConfig(fn=accuracy),
                run_config=RunConfig(
                    name="judged",
                    storage_path="runs",
                    log_to_file=("mine.txt", "errors.txt"),
                    checkpoint_config=CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="accuracy"),
                ),
            ).fit()

        result = fit()
        print(sorted(result.return_value))
        print([metrics for _, metrics in result.best_checkpoints][-1])
        from rtrain.train import Result
        print(sorted(metrics.get("accuracy", -1) for _, metrics in Result.from_path(result.path).best_checkpoints))
    """)
    assert out.splitlines() == [
        "printed in the loop",
        "[(0, 'VALIDATED'), (3, 'VALIDATED'), (4, 'COMMITTED')]",
        "{'epoch': 0, 'accuracy': 10}",
        "[3, 10]",
    ]
    logs = home.folder / "runs" / "judged" / "logs" / "attempt-000001"
    assert (logs / "rank-00000-mine.txt").read_text() == "printed in the loop\n"
    output = (logs / "rank-00000-errors.txt").read_text()
    assert "the validation of checkpoint_000003-a001 failed" in output
    assert "no such data" in output
    assert output.endswith("to the other stream\n")


def test_two_processes_under_one_name(home: Home) -> None:
    output = home.script(
        TRAIN
        + """
import fcntl
os.makedirs("runs/here")
lock = open("runs/here/.local-lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
DataParallelTrainer(
    loop, train_loop_config={"epochs": 1}, scaling_config=ScalingConfig(num_workers=0), run_config=RunConfig(name="here", storage_path="runs")
).fit()
""",
        expect=1,
    )
    assert "another process trains run here" in output


def test_loaders_and_models_in_local_mode_are_as_on_a_cluster(home: Home) -> None:
    out = home.script("""
        import torch
        from rtrain.train import RunConfig, ScalingConfig
        from rtrain.train.torch import TorchTrainer, prepare_data_loader, prepare_model
        from torch.utils.data import DataLoader, TensorDataset

        def loop():
            data = TensorDataset(torch.arange(20))
            loader = prepare_data_loader(DataLoader(data, 5, shuffle=True))
            orders = []
            for epoch in (0, 1, 0):
                loader.sampler.set_epoch(epoch)
                orders.append([one for batch in loader for one in batch[0].tolist()])
            print(orders[0] == orders[2] != orders[1], len(loader), loader.dataset is data, loader.batch_size)
            model = prepare_model(torch.nn.Linear(2, 1), parallel_strategy="DdP")
            print(list(model.module.state_dict()), list(model.state_dict()))

        TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=RunConfig(storage_path="runs")).fit()
    """)
    assert out.splitlines() == ["True 4 True 5", "['weight', 'bias'] ['weight', 'bias']"]


def test_trackers_go_on_where_the_checkpoint_was(home: Home) -> None:
    pytest.importorskip("tensorboard")
    script = TRAIN.replace('name="here"', 'name="here", tracking={"tensorboard": True}')
    home.script(script + "\nfit(epochs=2)\nfit(epochs=4)\n")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seen = EventAccumulator(str(home.folder / "rtrain_results/here/tensorboard"))
    seen.Reload()
    assert [(one.step, one.value) for one in seen.Scalars("epoch")] == [(1, 0), (2, 1), (3, 2), (4, 3)]
