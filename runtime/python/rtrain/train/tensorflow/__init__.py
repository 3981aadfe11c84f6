"""Names of Ray's trainers for TensorFlow. Their constructors raise an error that names the replacement."""

from rtrain.train._refused import refused, refused_function

_INSTEAD = (
    "run the script itself with `rtrain submit job.yaml` and `backend: {name: tensorflow}`; TF_CONFIG is set "
    "in every worker, so MultiWorkerMirroredStrategy finds the others, and `rtrain.train.report` keeps its "
    "metrics and checkpoints"
)

TensorflowTrainer = refused("TensorflowTrainer", _INSTEAD, __name__)
TensorflowConfig = refused("TensorflowConfig", _INSTEAD, __name__)
prepare_dataset_shard = refused_function("prepare_dataset_shard", _INSTEAD, __name__)

__all__ = ["TensorflowConfig", "TensorflowTrainer", "prepare_dataset_shard"]
