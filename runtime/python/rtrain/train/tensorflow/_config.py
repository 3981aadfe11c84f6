"""The settings of TensorflowTrainer, and datasets for its strategy. TensorFlow is imported where it is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rtrain._lazy import public_in
from rtrain.train.backend import BackendConfig


@dataclass
class TensorflowConfig(BackendConfig):
    """How the ranks meet: each gets TF_CONFIG with the addresses of all. There is nothing to set."""

    @property
    def backend(self) -> str:
        """The `backend.name` of the job, for which agents set TF_CONFIG."""
        return "tensorflow"


def prepare_dataset_shard(tf_dataset_shard: Any) -> Any:
    """Returns the tf.data.Dataset without TensorFlow's own sharding, and prefetched.

    A dataset of `get_dataset_shard(...).to_tf(...)` has this rank's rows alone. MultiWorkerMirroredStrategy would divide them
    once more.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf_dataset_shard.with_options(options).prefetch(tf.data.AUTOTUNE)


public_in("rtrain.train.tensorflow", TensorflowConfig, prepare_dataset_shard)
