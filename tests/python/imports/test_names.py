"""Every name of Ray's training API can be imported from the module that scripts use."""

import importlib
import inspect
import pickle

import pytest

NAMES = {
    "rtrain.train": """
        report get_checkpoint get_all_reported_checkpoints get_context get_dataset_shard get_preemption_info collective
        should_checkpoint resize_info checkpoint_dir attach
        ScalingConfig RunConfig CheckpointConfig FailureConfig LoggingConfig DataConfig SyncConfig ValidationConfig ValidationFn
        ValidationTaskConfig CheckpointUploadMode CheckpointConsistencyMode ReportedCheckpoint ReportedCheckpointStatus
        Checkpoint Result TrainContext PreemptionInfo BackendConfig DataParallelTrainer TRAIN_DATASET_KEY
        UserCallback RayTrainCallback RTrainCallback
        TrainingFailedError WorkerGroupError NCCLHangError ControllerError PreemptionError
        WorkerHealthCheckTimeoutError WorkerHealthCheckFailedError WorkerGroupStartupTimeoutError WorkerGroupStartupFailedError
        InsufficientClusterResourcesError CheckpointManagerInitializationError CollectiveTimeoutError
        BroadcastCollectiveTimeoutError UserExceptionWithTraceback""",
    "rtrain.train.collective": "barrier broadcast_from_rank_zero",
    "rtrain.train.backend": "Backend BackendConfig WorkerGroup",
    "rtrain.train.data_parallel_trainer": "DataParallelTrainer",
    "rtrain.train.torch": """
        TorchTrainer TorchConfig TorchCheckpoint prepare_model prepare_data_loader prepare_optimizer accelerate backward
        get_device get_devices enable_reproducibility""",
    "rtrain.train.torch.xla": "TorchXLAConfig",
    "rtrain.train.huggingface": "TransformersTrainer",
    "rtrain.train.huggingface.transformers": """
        prepare_trainer RayTrainReportCallback RTrainReportCallback TransformersTrainer""",
    "rtrain.train.lightning": """
        RayDDPStrategy RayFSDPStrategy RayDeepSpeedStrategy RayLightningEnvironment prepare_trainer RayTrainReportCallback""",
    "rtrain.train.tensorflow": "TensorflowTrainer TensorflowConfig TensorflowCheckpoint prepare_dataset_shard",
    "rtrain.train.xgboost": "XGBoostTrainer XGBoostConfig XGBoostCheckpoint RayTrainReportCallback",
    "rtrain.train.lightgbm": """
        LightGBMTrainer LightGBMConfig get_network_params RayTrainReportCallback normalize_pandas_for_lightgbm""",
    "rtrain.train.jax": "JaxTrainer JaxConfig",
    "rtrain.train.horovod": "HorovodTrainer HorovodConfig",
    "rtrain": "init shutdown is_initialized remote get wait put kill",
    "rtrain.data": """
        Dataset DataContext DataIterator MaterializedDataset Schema from_items from_numpy from_pandas from_arrow from_torch from_huggingface
        range range_tensor read_parquet read_csv read_json read_text read_numpy read_binary_files read_images""",
    "rtrain.integrations.mlflow": "setup_mlflow",
    "rtrain.integrations.wandb": "setup_wandb",
}


@pytest.mark.parametrize("module", NAMES)
def test_every_name_is_there(module):
    if module.endswith(("lightning", "xgboost", "lightgbm")):
        pytest.importorskip(module.rpartition(".")[2])
    if module == "rtrain.data":
        pytest.importorskip("pyarrow")
    if "huggingface" in module:
        pytest.importorskip("transformers")
    imported = importlib.import_module(module)
    assert [name for name in NAMES[module].split() if not hasattr(imported, name)] == []


def test_names_are_there_without_importing_their_modules():
    namespace: dict[str, object] = {}
    exec("import rtrain\nfrom rtrain.train import *\nfor_transformers = rtrain.train.huggingface.transformers", namespace)
    missing = [name for name in NAMES["rtrain.train"].split() if name not in namespace]
    assert missing == []


def test_every_error_survives_pickling():
    train = importlib.import_module("rtrain.train")
    errors = [name for name in NAMES["rtrain.train"].split() if name.endswith("Error")]
    assert len(errors) == 13
    for name in errors:
        made = getattr(train, name)("what happened")
        again = pickle.loads(pickle.dumps(made))
        assert type(again) is type(made)
        assert str(again) == "what happened"


def test_parameters_are_the_incumbent_s():
    """Names and defaults of the calls that scripts spell out."""
    train = importlib.import_module("rtrain.train")
    torch_api = importlib.import_module("rtrain.train.torch")

    def names(function):
        return [one for one in inspect.signature(function).parameters if one != "self"]

    assert names(train.report) == [
        "metrics",
        "checkpoint",
        "checkpoint_dir_name",
        "checkpoint_upload_mode",
        "delete_local_checkpoint_after_upload",
        "checkpoint_upload_fn",
        "validation",
    ]
    assert names(torch_api.prepare_model) == ["model", "move_to_device", "parallel_strategy", "parallel_strategy_kwargs"]
    assert names(torch_api.prepare_data_loader)[1:] == ["add_dist_sampler", "move_to_device", "auto_transfer"]
    assert names(torch_api.TorchTrainer) == [
        "train_loop_per_worker",
        "train_loop_config",
        "torch_config",
        "scaling_config",
        "run_config",
        "datasets",
        "dataset_config",
        "validation_config",
        "metadata",
        "resume_from_checkpoint",
    ]


def test_a_torch_checkpoint_of_an_older_script():
    torch = pytest.importorskip("torch")
    from rtrain.train.torch import TorchCheckpoint

    model = torch.nn.Linear(2, 1)
    whole = TorchCheckpoint.from_model(model).get_model()
    assert torch.equal(whole.weight, model.weight)
    state = TorchCheckpoint.from_state_dict({f"module.{name}": value for name, value in model.state_dict().items()})
    assert torch.equal(state.get_model(torch.nn.Linear(2, 1)).weight, model.weight)
    with pytest.raises(ValueError, match="get_model"):
        state.get_model()
