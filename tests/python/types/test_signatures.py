"""Compares public signatures with those in Ray's documentation: names, order, keyword-only arguments.

An argument that only rtrain has comes after those of Ray, or is keyword-only.
"""

from __future__ import annotations

import inspect
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "runtime" / "python"))

from rtrain import train, tune
from rtrain.train import torch
from rtrain.tune import schedulers, search, stopper

TRAINER = "scaling_config run_config datasets dataset_config validation_config metadata resume_from_checkpoint"
# The parameters of each function, in order. Parameters after "*" are keyword-only.
DOCUMENTED: dict[Callable[..., Any], str] = {
    train.report: "metrics checkpoint checkpoint_dir_name checkpoint_upload_mode delete_local_checkpoint_after_upload "
    "checkpoint_upload_fn validation",
    train.get_checkpoint: "",
    train.get_all_reported_checkpoints: "consistency_mode timeout_s",
    train.get_context: "",
    train.get_dataset_shard: "dataset_name",
    train.get_preemption_info: "",
    train.collective.barrier: "",
    train.collective.broadcast_from_rank_zero: "data",
    train.Checkpoint: "path filesystem",
    train.Checkpoint.from_directory: "path",
    train.Checkpoint.to_directory: "self path",
    train.Checkpoint.as_directory: "self",
    train.Checkpoint.set_metadata: "self metadata",
    train.Checkpoint.update_metadata: "self metadata",
    train.Result.get_best_checkpoint: "self metric mode",
    train.Result.from_path: "path storage_filesystem",
    train.CheckpointConfig: "num_to_keep checkpoint_score_attribute checkpoint_score_order checkpoint_frequency checkpoint_at_end",
    train.FailureConfig: "max_failures fail_fast controller_failure_limit",
    train.RunConfig: "name storage_path storage_filesystem failure_config checkpoint_config callbacks worker_runtime_env logging_config",
    train.DataConfig: "datasets_to_split execution_options enable_shard_locality",
    train.DataConfig.configure: "self datasets world_size worker_handles worker_node_ids",
    train.LoggingConfig: "log_level",
    train.ValidationConfig: "fn task_config ray_remote_kwargs",
    train.ValidationTaskConfig: "fn_kwargs timeout_s",
    train.SyncConfig: "sync_period sync_timeout sync_artifacts sync_artifacts_on_checkpoint upload_dir syncer sync_on_checkpoint",
    train.PreemptionInfo: "deadline_ms preempted_node_to_ranks",
    train.UserCallback.after_report: "self run_context metrics checkpoint",
    train.UserCallback.after_exception: "self run_context worker_exceptions",
    train.DataParallelTrainer: f"train_loop_per_worker * train_loop_config backend_config {TRAINER}",
    train.DataParallelTrainer.restore: "path storage_filesystem",
    train.DataParallelTrainer.can_restore: "path storage_filesystem",
    torch.TorchTrainer: f"train_loop_per_worker * train_loop_config torch_config {TRAINER}",
    torch.TorchConfig: "backend init_method timeout_s",
    torch.prepare_model: "model move_to_device parallel_strategy parallel_strategy_kwargs",
    torch.prepare_data_loader: "data_loader add_dist_sampler move_to_device auto_transfer",
    torch.enable_reproducibility: "seed",
    torch.accelerate: "amp",
    torch.prepare_optimizer: "optimizer",
    torch.backward: "tensor",
    tune.TuneConfig: "mode metric search_alg scheduler num_samples max_concurrent_trials time_budget_s reuse_actors "
    "trial_name_creator trial_dirname_creator chdir_to_trial_dir",
    tune.FailureConfig: "max_failures fail_fast",
    tune.CheckpointConfig: "num_to_keep checkpoint_score_attribute checkpoint_score_order checkpoint_frequency checkpoint_at_end",
    tune.Tuner: "trainable * param_space tune_config run_config",
    tune.Tuner.restore: "path trainable resume_unfinished resume_errored restart_errored param_space storage_filesystem",
    tune.Tuner.can_restore: "path storage_filesystem",
    tune.ResultGrid.get_best_result: "self metric mode scope filter_nan_and_inf",
    tune.ResultGrid.get_dataframe: "self filter_metric filter_mode",
    tune.ExperimentAnalysis.get_best_trial: "self metric mode scope filter_nan_and_inf",
    tune.ExperimentAnalysis.get_best_config: "self metric mode scope filter_nan_and_inf",
    tune.ExperimentAnalysis.dataframe: "self metric mode",
    tune.with_resources: "trainable resources",
    tune.with_parameters: "trainable",
    tune.PlacementGroupFactory: "bundles strategy",
    tune.report: "metrics checkpoint",
    tune.run: "run_or_experiment * name metric mode stop time_budget_s config resources_per_trial num_samples",
    tune.CLIReporter: "* metric_columns parameter_columns max_progress_rows max_error_rows max_report_frequency metric mode",
    tune.ProgressReporter.should_report: "self trials done",
    tune.ProgressReporter.report: "self trials done",
    tune.ProgressReporter.setup: "self start_time total_samples metric mode",
    tune.JupyterNotebookReporter: "overwrite",
    tune.choice: "categories",
    tune.uniform: "lower upper",
    tune.quniform: "lower upper q",
    tune.loguniform: "lower upper base",
    tune.qloguniform: "lower upper q base",
    tune.randint: "lower upper",
    tune.qrandint: "lower upper q",
    tune.lograndint: "lower upper base",
    tune.qlograndint: "lower upper q base",
    tune.randn: "mean sd",
    tune.qrandn: "mean sd q",
    tune.sample_from: "func",
    tune.grid_search: "values",
    tune.create_scheduler: "scheduler",
    tune.create_searcher: "search_alg",
    tune.Callback.setup: "self stop num_samples total_num_samples",
    tune.Callback.on_step_begin: "self iteration trials",
    tune.Callback.on_step_end: "self iteration trials",
    tune.Callback.on_trial_start: "self iteration trials trial",
    tune.Callback.on_trial_restore: "self iteration trials trial",
    tune.Callback.on_trial_recover: "self iteration trials trial",
    tune.Callback.on_trial_save: "self iteration trials trial",
    tune.Callback.on_checkpoint: "self iteration trials trial checkpoint",
    tune.Callback.on_trial_result: "self iteration trials trial result",
    tune.Callback.on_trial_complete: "self iteration trials trial",
    tune.Callback.on_trial_error: "self iteration trials trial",
    tune.Callback.on_experiment_end: "self trials",
    tune.Callback.get_state: "self",
    tune.Callback.set_state: "self state",
    tune.Trainable.setup: "self config",
    tune.Trainable.step: "self",
    tune.Trainable.save_checkpoint: "self checkpoint_dir",
    tune.Trainable.load_checkpoint: "self checkpoint",
    tune.Trainable.log_result: "self result",
    tune.Trainable.reset_config: "self new_config",
    tune.Trainable.cleanup: "self",
    tune.Trainable.get_auto_filled_metrics: "self now time_this_iter timestamp debug_metrics_only",
    tune.Trainable.default_resource_request: "config",
    tune.Trainable.resource_help: "config",
    schedulers.TrialScheduler.set_search_properties: "self metric mode",
    schedulers.TrialScheduler.on_trial_add: "self tune_controller trial",
    schedulers.TrialScheduler.on_trial_error: "self tune_controller trial",
    schedulers.TrialScheduler.on_trial_result: "self tune_controller trial result",
    schedulers.TrialScheduler.on_trial_complete: "self tune_controller trial result",
    schedulers.TrialScheduler.on_trial_remove: "self tune_controller trial",
    schedulers.TrialScheduler.choose_trial_to_run: "self tune_controller",
    schedulers.TrialScheduler.save: "self checkpoint_path",
    schedulers.TrialScheduler.restore: "self checkpoint_path",
    schedulers.ASHAScheduler: "time_attr metric mode max_t grace_period reduction_factor brackets stop_last_trials",
    schedulers.MedianStoppingRule: "time_attr metric mode grace_period min_samples_required min_time_slice hard_stop",
    schedulers.PopulationBasedTraining: "time_attr metric mode perturbation_interval burn_in_period hyperparam_mutations "
    "quantile_fraction resample_probability perturbation_factors custom_explore_fn log_config require_attrs synch",
    search.Searcher: "metric mode",
    search.Searcher.set_search_properties: "self metric mode config",
    search.Searcher.suggest: "self trial_id",
    search.Searcher.on_trial_result: "self trial_id result",
    search.Searcher.on_trial_complete: "self trial_id result error",
    search.Searcher.save: "self checkpoint_path",
    search.Searcher.restore: "self checkpoint_path",
    search.Searcher.set_max_concurrency: "self max_concurrent",
    search.ConcurrencyLimiter: "searcher max_concurrent batch",
    search.BasicVariantGenerator: "points_to_evaluate max_concurrent constant_grid_search random_state",
    stopper.MaximumIterationStopper: "max_iter",
    stopper.TrialPlateauStopper: "metric std num_results grace_period metric_threshold mode",
    stopper.ExperimentPlateauStopper: "metric std top mode patience",
    stopper.TimeoutStopper: "timeout",
    stopper.FunctionStopper: "function",
}  # fmt: skip
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@pytest.mark.parametrize("function", DOCUMENTED, ids=lambda function: function.__qualname__)
def test_a_signature_begins_as_the_incumbent_s(function) -> None:
    parameters = inspect.signature(function).parameters
    positional = [name for name, parameter in parameters.items() if parameter.kind in POSITIONAL]
    before, _, behind = DOCUMENTED[function].partition("*")
    documented, by_name = before.split(), behind.split()
    assert positional[: len(documented)] == documented
    assert set(by_name) <= set(parameters) - set(documented)
    own = positional[len(documented) :]
    assert all(parameters[name].default is not inspect.Parameter.empty for name in own), "what is rtrain's own may be left out"


def test_a_metric_and_a_mode_by_position_in_the_wrong_order_are_refused() -> None:
    assert (tune.TuneConfig("max", "acc").mode, tune.TuneConfig("max", "acc").metric) == ("max", "acc")
    with pytest.raises(ValueError, match="mode is 'acc'.*the first argument is the mode, as in Ray, so write metric= and mode="):
        tune.TuneConfig("acc", "max")


def test_the_name_of_a_dataset_is_given_by_either_of_its_names(monkeypatch) -> None:
    from types import SimpleNamespace

    from rtrain.train import _loop

    asked: list[Any] = []
    session = SimpleNamespace(dataset_shard=lambda *given: asked.append(given))
    monkeypatch.setattr(_loop._session, "current", lambda name: session)
    for call in (
        lambda: train.get_dataset_shard("a"),
        lambda: train.get_dataset_shard(dataset_name="a"),
        lambda: train.get_dataset_shard(name="a"),
    ):
        call()
    assert asked == [("a",)] * 3
    with pytest.raises(TypeError, match="which mean the same"):
        train.get_dataset_shard("a", name="b")
