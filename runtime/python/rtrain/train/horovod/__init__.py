"""Names of Ray's trainers for Horovod. Their constructors raise an error that names the replacement."""

from rtrain.train._refused import refused

_INSTEAD = "use `rtrain.train.torch.TorchTrainer`; `prepare_model` synchronises gradients as hvd.DistributedOptimizer did"

HorovodTrainer = refused("HorovodTrainer", _INSTEAD, __name__)
HorovodConfig = refused("HorovodConfig", _INSTEAD, __name__)

__all__ = ["HorovodConfig", "HorovodTrainer"]
