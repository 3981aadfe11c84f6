"""The values that configs and results accept and keep, without a cluster."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing

import pytest
from rtrain import train, tune
from rtrain.train import (
    Checkpoint,
    CheckpointUploadMode,
    ControllerError,
    DataConfig,
    DataParallelTrainer,
    PreemptionError,
    Result,
    RunConfig,
    ScalingConfig,
)
from rtrain.train.torch import TorchConfig
from rtrain.tune import _config, _trainable


def nothing() -> None:
    pass


def reads(config: dict) -> None:
    pass


# -- RunConfig and ScalingConfig ----------------------------------------------------------------------------------------
def test_a_run_without_a_name_is_named_when_its_config_is_made() -> None:
    one, other = RunConfig(), RunConfig()
    assert one.name and one.name.startswith("rtrain_run-") and one.name != other.name
    assert not one.is_named and RunConfig(name="mine").is_named
    assert one.callbacks == [] and one.callbacks is not other.callbacks
    for same in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), dataclasses.replace(one, storage_path="/runs")):
        assert same.name == one.name and not same.is_named
    assert dataclasses.replace(one, name="mine").is_named and dataclasses.replace(RunConfig(name="mine")).is_named


def test_a_sweep_has_its_name_from_its_trainable_all_the_same() -> None:
    assert tune.RunConfig().name is None
    assert _config.of_tuner(RunConfig()).name is None
    assert _config.of_tuner(RunConfig(name="mine")).name == "mine"


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: RunConfig(name=3), TypeError, r"RunConfig\(name=\) is 3; it is a text"),
        (lambda: RunConfig(storage_path=3), TypeError, r"storage_path=\) is 3; it is a path or a URI"),
        (lambda: RunConfig(callbacks=train.UserCallback()), TypeError, r"callbacks=\) is .* a list of UserCallbacks"),
        (
            lambda: RunConfig(callbacks=[object()]),
            ValueError,
            "is not a rtrain.tune.Callback and not a rtrain.train.UserCallback",
        ),
        (lambda: RunConfig(callbacks=[train.UserCallback]), ValueError, "derive its class from the first"),
        (lambda: train.CheckpointConfig(num_to_keep=1.5), ValueError, "num_to_keep is 1.5"),
        (lambda: RunConfig(failure_config=3), ValueError, "it is a rtrain.train.FailureConfig"),
        (lambda: RunConfig(checkpoint_config={"num_to_keep": 1}), ValueError, "it is a rtrain.train.CheckpointConfig"),
        (lambda: RunConfig(logging_config="INFO"), ValueError, "it is a rtrain.train.LoggingConfig"),
        (lambda: RunConfig(priority="high"), TypeError, r"priority=\) is 'high'; it is a whole number"),
        (lambda: RunConfig(env=["A=1"]), TypeError, r"env=\) is \['A=1'\]; it is a dict"),
        (lambda: RunConfig(storage_path="file://elsewhere/runs"), ValueError, "names the host 'elsewhere'"),
        (lambda: ScalingConfig(use_gpu="yes"), TypeError, r"use_gpu=\) is 'yes'; it is True or False"),
        (lambda: ScalingConfig(resources_per_worker=2), TypeError, r"resources_per_worker=\) is 2; it is a dict"),
        (lambda: ScalingConfig(label_selector="zone=us"), TypeError, r"label_selector=\) is 'zone=us'"),
        (lambda: ScalingConfig(label_selector={"zone": 3}), TypeError, r"label_selector holds \{'zone': 3\}"),
        (
            lambda: ScalingConfig(num_workers=2, label_selector=[{"a": "b"}]),
            ValueError,
            r"a list of 1; .* one entry per worker \(2\)",
        ),
        (
            lambda: ScalingConfig(num_workers=(1, 3), label_selector=[{"a": "b"}, {"a": "c"}]),
            ValueError,
            r"a list of 2; a list has one entry per worker of the largest size \(3\)",
        ),
        (
            lambda: DataParallelTrainer(nothing, scaling_config={"num_workers": 2}),
            ValueError,
            "scaling_config is a dict; it is a Scal",
        ),
        (lambda: DataParallelTrainer(nothing, run_config={"name": "x"}), ValueError, "run_config is a dict; it is a RunConfig"),
        (lambda: DataParallelTrainer(nothing, datasets=[1]), ValueError, "datasets is a list; it is a dict"),
    ],
)
def test_a_wrong_type_is_refused_where_it_is_given(make, kind, text) -> None:
    with pytest.raises(kind, match=text):
        make()


CONFIGS = [
    train.ScalingConfig, train.CheckpointConfig, train.FailureConfig, train.LoggingConfig, train.DataConfig, train.ValidationTaskConfig,
    train.ValidationConfig, train.SyncConfig, RunConfig, tune.CheckpointConfig, tune.FailureConfig, tune.RunConfig, tune.TuneConfig, TorchConfig,
]  # fmt: skip
# Arguments of a trainer that are mentioned once, whatever their value.
ANYTHING = {("DataConfig", "execution_options"), ("RunConfig", "progress_reporter")}


@pytest.mark.parametrize("config", CONFIGS)
def test_no_field_of_a_config_takes_just_any_object(config) -> None:
    needed = {"fn": print} if config is train.ValidationConfig else {}
    for name in inspect.signature(config).parameters:
        if (config.__name__, name) in ANYTHING and config is not tune.RunConfig:
            continue
        with pytest.raises((TypeError, ValueError)):
            config(**{**needed, name: object()})


def test_settings_of_copying_are_named_once_and_where_files_would_go_elsewhere_refused() -> None:
    assert train.SyncConfig(300, 1800, False, True).sync_period == 300
    with pytest.warns(
        DeprecationWarning, match=r"SyncConfig\(sync_artifacts=\) changes nothing: files are kept when they are reported"
    ):
        train.SyncConfig(sync_artifacts=True)
    with pytest.raises(ValueError, match=r"SyncConfig\(syncer=\) cannot be carried out: RunConfig\(storage_filesystem=\)"):
        train.SyncConfig(syncer="of-my-own")
    with pytest.warns(DeprecationWarning, match=r"SyncConfig\(upload_dir=\) is an older name of RunConfig\(storage_path=\)"):
        assert RunConfig(sync_config=train.SyncConfig(upload_dir="s3://bucket/x")).storage_path == "s3://bucket/x"
    with pytest.raises(TypeError):
        train.SyncConfig(sync_perid=3)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("hf_Secret1", TypeError),
        (b"hf_Secret1", TypeError),
        ({"HF_TOKEN": "hf_Secret1"}, TypeError),
        (["hf-Secret1.x"], ValueError),
        (["a", 3], ValueError),
    ],
)
def test_what_is_given_as_secrets_by_mistake_is_refused_and_not_shown(given, kind) -> None:
    for config in (RunConfig, tune.RunConfig):
        with pytest.raises(kind, match=r"RunConfig\(secrets=\).* name.? of .*environment variable") as refused:
            config(secrets=given)
        assert "Secret1" not in str(refused.value)
    assert RunConfig(secrets=("HF_TOKEN",)).secrets == ("HF_TOKEN",)


@pytest.mark.parametrize(
    "config",
    [train.CheckpointConfig, train.FailureConfig, RunConfig, ScalingConfig, train.ValidationConfig, Result, tune.RunConfig],
)
def test_the_types_of_fields_can_be_asked_for(config) -> None:
    assert set(typing.get_type_hints(config)) >= {field.name for field in dataclasses.fields(config)}


def test_a_list_of_selectors_that_are_alike_is_one_for_all() -> None:
    assert ScalingConfig(num_workers=2, label_selector=[{"zone": "us"}] * 2).job()["label_selector"] == {"zone": "us"}
    assert "label_selector" not in ScalingConfig(label_selector={}).job()
    differ = ScalingConfig(num_workers=2, label_selector=[{"zone": "us"}, {}]).job()
    assert differ["worker_selectors"] == [{"zone": "us"}, {}] and "label_selector" not in differ
    elastic = ScalingConfig(num_workers=(1, 2), label_selector=[{"zone": "us"}, {}]).job()
    assert elastic["worker_selectors"] == [{"zone": "us"}, {}] and elastic["workers"] == "1..2"


def test_a_file_uri_is_the_path_that_it_names(tmp_path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    uri = folder.as_uri()
    assert "%20" in uri
    assert RunConfig(storage_path=uri).storage_path == str(folder)
    checkpoint = Checkpoint(uri)
    assert checkpoint.path == str(folder)
    with checkpoint.as_directory() as there:
        assert there == str(folder)
    with pytest.raises(RuntimeError, match=f"Experiment folder {folder} doesn't exist"):
        Result.from_path(uri)
    assert Checkpoint("s3://bucket/one").path == "s3://bucket/one"


# -- errors and enums -----------------------------------------------------------------------------------------------------
def test_errors_take_what_they_are_about() -> None:
    cause = KeyError("gone")
    failed = ControllerError(cause)
    assert failed.controller_failure is cause and "KeyError: 'gone'" in str(failed)
    assert ControllerError(controller_failure=cause).controller_failure is cause
    again = pickle.loads(pickle.dumps(failed))
    assert isinstance(again.controller_failure, KeyError) and str(again) == str(failed)
    assert str(ControllerError("no room")) == "no room" and "no room" in str(ControllerError("no room").controller_failure)

    info = train.PreemptionInfo(None, {"node-1": [0, 1]})
    taken = PreemptionError(info, True)
    assert taken.preemption_info is info and taken.drain_timed_out is True
    assert str(taken) == "the run's nodes were taken away: node-1 (ranks 0, 1); the workers had not ended by the deadline"
    several = PreemptionError(train.PreemptionInfo(5, {"node-1": [1, 0], "node-2": [2], "node-3": []}))
    assert str(several) == "the run's nodes were taken away: node-1 (ranks 0, 1), node-2 (rank 2), node-3"
    assert (
        str(pickle.loads(pickle.dumps(several))) == str(several) and str(PreemptionError()) == "the run's nodes were taken away"
    )
    assert pickle.loads(pickle.dumps(taken)).preemption_info == info
    assert str(PreemptionError("gone")) == "gone" and PreemptionError("gone").preemption_info is None


def test_an_upload_mode_is_found_by_its_name() -> None:
    for name in ("SYNC", "ASYNC", "NO_UPLOAD"):
        assert CheckpointUploadMode(name) is CheckpointUploadMode[name] and CheckpointUploadMode[name].value == name


# -- a search space of a trainer ------------------------------------------------------------------------------------------
def gang(space: dict, config: dict, loop=reads) -> DataParallelTrainer:
    """Returns the trainer of one trial whose drawn config is `config`."""
    wrapped = _trainable.checked(DataParallelTrainer(loop, train_loop_config={"lr": 1, "deep": {"a": 1, "b": 2}}))
    _trainable.checked_space(space, wrapped)
    trials = _trainable.Trials(wrapped, tune.RunConfig(), "sweep", None, None, None, None)
    trials.prepare()

    class Trial:
        class leg:  # noqa: N801
            pass

    Trial.leg.config = config
    return trials._gang(wrapped.trainable, Trial)


def test_names_of_a_search_space_that_are_not_the_trainer_s_go_into_the_loop_s_config() -> None:
    assert gang({"lr": tune.choice([3])}, {"lr": 3}).train_loop_config == {"lr": 3, "deep": {"a": 1, "b": 2}}
    both = {"lr": 3, "train_loop_config": {"deep": {"a": 7}}, "scaling_config": {"num_workers": 2}}
    made = gang(both, both)
    assert made.train_loop_config == {"lr": 3, "deep": {"a": 7, "b": 2}} and made.scaling_config.num_workers == 2


@pytest.mark.parametrize(
    ("space", "text"),
    [
        ({"lr": 1, "train_loop_config": {"lr": 2}}, "'lr' stands in 'train_loop_config' too"),
        ({"run_config": RunConfig()}, "'run_config' is the trainer's own argument"),
        ({"scaling_confg": {"num_workers": 2}}, "'scaling_confg' is nearly 'scaling_config'"),
        ({"lr": 1, "train_loop_config": tune.choice([{"a": 1}])}, "'train_loop_config' is drawn as a whole"),
    ],
)
def test_a_name_that_could_be_meant_otherwise_is_refused(space, text) -> None:
    with pytest.raises(ValueError, match=text):
        gang(space, {})


def test_a_flat_name_is_refused_where_the_loop_takes_no_config() -> None:
    with pytest.raises(ValueError, match="'lr' would go into the loop's config, and the training function takes none"):
        gang({"lr": 1}, {}, nothing)


def test_the_configure_that_an_override_calls_splits_as_the_config_says() -> None:
    class OverridesConfigure(DataConfig):
        def configure(self, datasets, *others):
            return super().configure(datasets, *others)

    for equal, sizes in ((True, [2, 2, 2]), (False, [3, 2, 2])):
        shards = OverridesConfigure(equal=equal).configure({"train": list(range(7))}, 3)
        assert [len(one["train"]) for one in shards] == sizes
