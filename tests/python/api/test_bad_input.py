"""The errors of a driver before it sends anything, and the arguments of older scripts."""

from __future__ import annotations

import functools
import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import pytest
import rtrain
from conftest import PACKAGE
from rtrain import _arguments, train
from rtrain.train import (
    CheckpointConfig,
    DataConfig,
    DataParallelTrainer,
    FailureConfig,
    LoggingConfig,
    Result,
    RunConfig,
    ScalingConfig,
    UserCallback,
    ValidationConfig,
    ValidationTaskConfig,
    _run_context,
)
from rtrain.train._archive import _package, _walk
from rtrain.train._session import _reported
from rtrain.train._values import _errors
from rtrain.train._workers import _loop_call
from rtrain.train.huggingface._loop import TransformersLoop


def nothing():
    pass


def test_what_cannot_be_pickled_is_named_by_variable(cluster):
    lock = threading.Lock()

    def holds():
        print(lock)

    with pytest.raises(ValueError, match=r"train_loop_per_worker -> variable lock \(lock\) cannot be sent"):
        DataParallelTrainer(holds).fit()
    with pytest.raises(ValueError, match=r"train_loop_config\['deep'\]\[1\] \(lock\) cannot be sent"):
        DataParallelTrainer(nothing, train_loop_config={"deep": [1, lock]}).fit()


def test_a_loop_with_two_required_arguments_is_refused():
    with pytest.raises(ValueError, match="needs 2: config, other"):
        DataParallelTrainer(lambda config, other: None).fit()
    with pytest.raises(ValueError, match="it is a function"):
        DataParallelTrainer("train")
    with pytest.raises(ValueError, match="it is a dict"):
        DataParallelTrainer(nothing, train_loop_config=[1])


def test_a_loop_behind_a_plain_decorator_gets_the_config():
    def plain(function):
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    assert _loop_call.called(plain(lambda config: config["lr"]), {"lr": 3}) == 3
    assert _loop_call.called(plain(lambda config: config), None) == {}
    # The signature is that of the loop.
    assert _loop_call.called(functools.wraps(nothing)(plain(nothing)), {"lr": 3}) is None
    assert TransformersLoop(plain(lambda config: config["lr"]), makes_trainer=False)._call_function({"lr": 3}) == 3
    assert _loop_call.called(lambda **values: values, {"lr": 3}) == {}


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: ScalingConfig(num_workers=-1), ValueError, "negative"),
        (lambda: ScalingConfig(num_workers=(4, 2)), ValueError, "1 <= min <= max"),
        (lambda: ScalingConfig(num_workers=2.5), ValueError, "whole number"),
        (lambda: ScalingConfig(use_gpu=True, resources_per_worker={"GPU": 0}), ValueError, "contradicts"),
        (lambda: ScalingConfig(resources_per_worker={"GPU": 1}), ValueError, "needs use_gpu=True"),
        (lambda: ScalingConfig(resources_per_worker={"CPU": -1}), ValueError, "CPU"),
        (lambda: ScalingConfig(placement_strategy="NEAR"), ValueError, "PACK"),
        (lambda: ScalingConfig(use_tpu=True), ValueError, "rtrain submit"),
        (lambda: CheckpointConfig(num_to_keep=0), ValueError, "num_to_keep"),
        (lambda: CheckpointConfig(checkpoint_score_order="up"), ValueError, "'max' or 'min'"),
        (lambda: CheckpointConfig(keep_latest="at_end"), ValueError, "'always' or 'until_success'"),
        (lambda: FailureConfig(max_failures=-2), ValueError, "max_failures"),
        (lambda: FailureConfig(max_failures=2, fail_fast=True), ValueError, "contradict"),
        (lambda: LoggingConfig(log_level="LOUD"), ValueError, "log_level"),
        (lambda: DataConfig(datasets_to_split=3), TypeError, "datasets_to_split"),
        (lambda: ValidationConfig(fn=1), TypeError, "function"),
        (lambda: ValidationTaskConfig(timeout_s=0), ValueError, "timeout_s"),
        (lambda: RunConfig(stop={"epoch": "3"}), TypeError, "stop"),
        (lambda: RunConfig(worker_runtime_env={"pip": ["x"]}), ValueError, "install what the loop needs"),
        (lambda: RunConfig(worker_runtime_env={"env_vars": ["A=1"]}), TypeError, "it is a dict of names and texts"),
        (
            lambda: rtrain.init(runtime_env={"pip": ["x"]}),
            ValueError,
            r"init\(runtime_env=\)\['pip'\] .*install what the loop needs",
        ),
        (lambda: rtrain.init(runtime_env={"py_modules": ["x"]}), ValueError, "keep the modules beside the driver's script"),
        (lambda: rtrain.init(runtime_env="env.yaml"), TypeError, "it is a dict of env_vars and working_dir"),
        (lambda: RunConfig(stop=3), TypeError, "stop"),
        (
            lambda: RunConfig(callbacks=[1]) and DataParallelTrainer(nothing, run_config=RunConfig(callbacks=[1])).fit(),
            ValueError,
            "UserCallback",
        ),
    ],
)
def test_configs_are_checked(make, kind, text, cluster):
    with pytest.raises(kind, match=text):
        make()


def test_sizes_and_resources_are_told_as_ray_tells_them():
    config = ScalingConfig(num_workers=(2, 4), resources_per_worker={"CPU": 2, "memory": 10})
    assert (config.min_workers, config.max_workers, config.elasticity_enabled) == (2, 4, True)
    assert config.total_resources == {"CPU": 8, "memory": 40}
    assert (config.num_cpus_per_worker, config.additional_resources_per_worker) == (2, {"memory": 10})
    assert ScalingConfig(use_gpu=True).job()["resources_per_worker"] == {"CPU": 0, "GPU": 1}
    assert ScalingConfig(num_workers=(2, 4)).job()["workers"] == "2..4"


def test_what_nodes_a_worker_asks_for_becomes_the_job_s():
    assert ScalingConfig(accelerator_type="A100", use_gpu=True).job()["accelerator_type"] == "A100"
    everywhere = {"zone": "us", "gpu": "in(A100,H100)"}
    assert ScalingConfig(num_workers=2, label_selector=everywhere).job()["label_selector"] == everywhere
    assert ScalingConfig(num_workers=2, label_selector=[everywhere, everywhere]).job()["label_selector"] == everywhere
    with pytest.raises(ValueError, match="a list has one entry per worker"):
        ScalingConfig(num_workers=2, label_selector=[everywhere]).job()
    differ = [{"zone": "us"}, {"zone": "eu"}]
    assert ScalingConfig(num_workers=2, label_selector=differ).job()["worker_selectors"] == differ


class Listens(UserCallback):
    pass


def test_callbacks_are_named_by_a_variable_too(monkeypatch):
    name = f"{__name__}.{Listens.__name__}"
    for variable in ("RTRAIN_TRAIN_CALLBACKS", "RAY_TRAIN_CALLBACKS"):
        monkeypatch.setenv(variable, f" {name},")
        assert [type(one).__name__ for one in _run_context.checked(None)] == ["Listens"]
        monkeypatch.setenv(variable, "json.Nothing")
        with pytest.raises(ValueError, match=r"names 'json.Nothing'; it takes module.Class"):
            _run_context.checked(None)
        monkeypatch.delenv(variable)


def test_a_result_is_read_through_a_file_system_of_pyarrow(tmp_path):
    fs = pytest.importorskip("pyarrow.fs")
    (tmp_path / "run" / "attempts" / "000001").mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text("{}")
    (tmp_path / "run" / "attempts" / "000001" / "metrics-000001.jsonl").write_text('{"metrics": {"0": {"step": 4}}}\n{"met')
    result = Result.from_path(tmp_path / "run", storage_filesystem=fs.LocalFileSystem())
    assert (result.metrics, result.checkpoint, result.path) == ({"step": 4}, None, str(tmp_path / "run"))
    with pytest.raises(RuntimeError, match="doesn't exist"):
        Result.from_path(tmp_path / "none", storage_filesystem=fs.LocalFileSystem())


def test_a_row_that_a_killed_agent_left_twice_counts_once(tmp_path):
    rows = {"000001": [1, 2, 3, 2, 3, 4], "000002": [1, 2]}
    for attempt, indexes in rows.items():
        (tmp_path / "run" / "attempts" / attempt).mkdir(parents=True)
        lines = [json.dumps({"index": index, "metrics": {"0": {"at": f"{attempt}-{index}"}}}) for index in indexes]
        (tmp_path / "run" / "attempts" / attempt / "metrics-000001.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "run" / "run.json").write_text("{}")
    seen = [row["at"] for row in Result.from_path(tmp_path / "run").metrics_dataframe.to_dict("records")]
    assert seen == ["000001-1", "000001-2", "000001-3", "000001-4", "000002-1", "000002-2"]


def test_the_package_passes_for_ray():
    script = "import rtrain as ray; from rtrain import train; print(ray.train is train, ray.train.torch.TorchTrainer.__name__)"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "True TorchTrainer\n"


def test_a_run_s_name_is_checked():
    with pytest.raises(ValueError, match="the run's name"):
        DataParallelTrainer(nothing, run_config=RunConfig(name="a/b")).fit()


def test_other_versions_of_python_and_package_are_named():
    header = _package.header()
    assert _package.check_versions(header, "n1") == ""
    assert "0.9" in _package.check_versions({**header, "rtrain": "0.9"}, "n1")
    with pytest.raises(RuntimeError, match=r"the driver runs Python 3\.2 and node n1 Python"):
        _package.check_versions({**header, "python": [3, 2, 0]}, "n1")
    _package.check_cluster(header["rtrain"].rpartition(".")[0] + ".99")
    with pytest.raises(RuntimeError, match=r"and the cluster 7\.1: install the package"):
        _package.check_cluster("7.1")
    with pytest.raises(RuntimeError, match="same major version"):
        _package.check_versions({**header, "rtrain": "7.1"}, "n1")


def test_a_cluster_of_another_major_version_is_refused_and_of_another_minor_one_trains(cluster, monkeypatch):
    ours = _package.header()["rtrain"]
    major, minor = ours.split(".")[:2]
    monkeypatch.setattr("rtrain.__version__", f"{int(major) + 1}.0.0")
    with pytest.raises(
        RuntimeError, match=rf"this process has rtrain {int(major) + 1}\.0\.0 and the cluster {ours}: install the package"
    ):
        DataParallelTrainer(nothing).fit()
    monkeypatch.setattr("rtrain.__version__", f"{major}.{int(minor) + 1}.0")
    name = cluster.name("minor")
    DataParallelTrainer(nothing, run_config=RunConfig(name=name)).fit()
    errors = cluster.daemons.rtrain("logs", name, "--stream", "err")
    assert f"the driver has rtrain {major}.{int(minor) + 1}.0, node node-" in errors and f" has {ours}" in errors


def test_a_checkpoint_directory_that_vanished_is_named_with_its_rank(cluster):
    def loop():
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            gone = train.Checkpoint.from_directory(folder)
        train.report({}, gone)

    with pytest.raises(train.WorkerGroupError, match=r"Rank 0 Error.*\n(.*\n)*.*is not a directory; report it while it is there"):
        DataParallelTrainer(loop, run_config=RunConfig(name=cluster.name("vanished"))).fit()


def test_a_metric_that_is_no_number_names_its_key(cluster):
    def loop():
        train.report({"fine": 1, "bad": {"inner": object()}})

    with pytest.raises(train.WorkerGroupError, match=r"metrics\['bad'\]\['inner'\] is a object"):
        DataParallelTrainer(loop, run_config=RunConfig(name=cluster.name("metric"))).fit()


def test_ranks_that_failed_alike_are_shown_together():
    failures = {0: "ValueError: 17 rows", 3: "KeyError: 'x'", 1: "ValueError: 4 rows", 2: "OSError: " + "disk " * 1000}
    text = _errors.group_message(failures, "more")
    assert text.startswith("Training failed due to worker errors:\n[Rank 0,1 Error Snippet]:\nValueError: 17 rows\n[Rank 2 Error")
    assert "[Rank 3 Error Snippet]:\nKeyError: 'x'\nmore" in text
    assert "`rtrain describe` has it whole" in text
    assert len(text) < 3000


def files_of(folder):
    """Returns the files that are packed, by their paths in the archive."""
    entries = _walk.walk(folder, _package._ALWAYS_IGNORED, ()).entries
    return [entry.path for entry in entries if not entry.is_folder]


def test_an_archive_is_deterministic_and_heeds_ignore_files(tmp_path):
    (tmp_path / "a.py").write_text("a")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "big.bin").write_text("b")
    (tmp_path / "data" / "kept.txt").write_text("k")
    (tmp_path / ".gitignore").write_text("*.bin\n/other/\n")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("c")
    first, second = _package.pack_directory(tmp_path), _package.pack_directory(tmp_path)
    assert first.digest == second.digest
    assert first.files == 3
    (tmp_path / ".rtrainignore").write_text("!big.bin\nkept.txt\n")
    assert files_of(tmp_path) == [".gitignore", ".rtrainignore", "a.py", "data/big.bin"]


def test_an_archive_leaves_out_runs_and_what_goes_while_it_is_made(tmp_path, monkeypatch):
    for name in ("a.py", "results/notes.txt", "results/one/run.json", "results/one/checkpoint_000001-a001/model.pt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "results" / "one" / "attempts").mkdir()
    listed = _walk.walk

    def with_one_more(*given):
        listing = listed(*given)
        listing.entries.append(_walk.Entry("gone.txt", tmp_path / "gone.txt"))
        return listing

    monkeypatch.setattr(_walk, "walk", with_one_more)
    first = _package.pack_directory(tmp_path)
    assert first.files == 2
    monkeypatch.setattr(_walk, "walk", listed)
    _package.untar(_package.decompressed(first.content), tmp_path / "out")
    assert files_of(tmp_path / "out") == ["a.py", "results/notes.txt"]
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "log.txt").write_text("an output")
    logged = _package.pack_directory(tmp_path)
    assert logged.digest != first.digest and logged.sources == first.sources
    (tmp_path / "a.py").write_text("other code")
    assert _package.pack_directory(tmp_path).sources != first.sources


def test_names_of_older_versions_say_what_takes_their_place():
    with pytest.raises(AttributeError, match="give Checkpoint the URI as its path"):
        train.Checkpoint.from_uri("s3://bucket/run")
    with pytest.raises(AttributeError, match="use to_dict or to_directory"):
        train.Checkpoint("/tmp").to_bytes()
    with pytest.raises(TypeError, match="as_directory"):
        os.fspath(train.Checkpoint("/tmp"))
    with pytest.raises(TypeError):  # from Python 3.12 on with pathlib's own text
        pathlib.Path(train.Checkpoint("/tmp"))
    assert not hasattr(train.Checkpoint, "nothing")


def test_older_shapes_are_accepted_and_remarked_upon_once(capfd):
    _arguments._warned.clear()
    with pytest.warns(DeprecationWarning, match="verbose") as remarks:
        RunConfig(verbose=1, sync_config=train.SyncConfig(upload_dir="x"), local_dir="/tmp/runs")
    assert {remark.filename for remark in remarks} == {__file__}  # Python shows it in the user's own script alone
    RunConfig(verbose=2)
    assert capfd.readouterr().err.count("RunConfig(verbose=)") == 1
    assert RunConfig(log_to_file=True).log_to_file == ("stdout.log", "stderr.log")
    assert RunConfig(storage_path="~/runs").storage_path == str(pathlib.Path.home() / "runs")


def test_what_changes_nothing_is_accepted_and_said_once(capfd):
    _arguments._warned.clear()
    limits = {
        "controller_failure_limit": 2,
        "max_preemption_failures": 1,
        "relax_collectives_on_preemption": True,
        "preemption_grace_s": 3,
    }
    options = DataConfig.default_ingest_options()
    options.resource_limits.object_store_memory = 10e9
    with pytest.warns(DeprecationWarning, match="changes nothing"):
        FailureConfig(max_failures=1, **limits)
        DataConfig(execution_options=options)
    FailureConfig(max_preemption_failures=1)
    FailureConfig(max_preemption_failures=-1)
    warnings = capfd.readouterr().err
    for name in (*limits, "execution_options"):
        assert warnings.count(f"({name}=) changes nothing: ") == 1
    assert warnings.count("\n") == len(limits) + 1


def test_what_lies_on_this_machine_has_pyarrow_s_file_system(tmp_path, monkeypatch):
    fs = pytest.importorskip("pyarrow.fs")
    (tmp_path / "weights").write_text("w")
    here, there = train.Checkpoint(tmp_path), train.Checkpoint("s3://bucket/run/checkpoint")
    assert here.filesystem.open_input_stream(f"{here.path}/weights").read() == b"w"
    assert Result(path=str(tmp_path)).filesystem == fs.LocalFileSystem()
    assert (there.filesystem, Result().filesystem, Result(path="cluster://run").filesystem) == (None, None, None)
    given = train.Checkpoint("bucket/checkpoint", fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    assert given.filesystem.type_name == "subtree" and given != train.Checkpoint("bucket/checkpoint")
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    assert here.filesystem is None


def test_the_package_has_what_it_names():
    for name in ("data", "exceptions", "integrations", "train", "tune"):
        assert name in dir(rtrain) and getattr(rtrain, name) is importlib.import_module(f"rtrain.{name}")
    with pytest.raises(AttributeError, match="no attribute 'serve'"):
        _ = rtrain.serve


def test_amounts_of_resources_are_read_as_a_job_gives_them():
    read = {text: _reported._amount(text) for text in ("4", "0.5", "8GiB", "4Gi", "2M", "16B")}
    assert read == {"4": 4, "0.5": 0.5, "8GiB": 8 << 30, "4Gi": 4 << 30, "2M": 2e6, "16B": 16}


def test_errors_survive_pickling():
    import pickle

    error = train.WorkerGroupError("Training failed", {1: train.UserExceptionWithTraceback("ValueError: x")})
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), str(again.worker_failures[1])) == ("Training failed", "ValueError: x")
    for one in (train.ControllerError("no"), train.PreemptionError("gone"), train.NCCLHangError("hangs", {})):
        assert type(pickle.loads(pickle.dumps(one))) is type(one)
