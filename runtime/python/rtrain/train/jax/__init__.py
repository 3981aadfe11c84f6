"""JAX on several workers: a trainer whose ranks are the processes of `jax.distributed`."""

from rtrain.train.jax._config import JaxConfig
from rtrain.train.jax._trainer import JaxTrainer

__all__ = ["JaxConfig", "JaxTrainer"]
