"""JAX: the names of the incumbent's trainers; making one says what to do instead."""

from rtrain.train._refused import refused

_INSTEAD = (
    "run the script itself with `rtrain submit job.yaml` and call "
    'jax.distributed.initialize(f"{MASTER_ADDR}:{MASTER_PORT}", WORLD_SIZE, RANK) with the variables of the '
    "worker"
)

JaxTrainer = refused("JaxTrainer", _INSTEAD, __name__)
JaxConfig = refused("JaxConfig", _INSTEAD, __name__)

__all__ = ["JaxConfig", "JaxTrainer"]
