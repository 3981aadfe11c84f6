"""The name of Ray's XLA config. Its constructor raises an error that names the alternative."""

from rtrain.train._refused import refused

TorchXLAConfig = refused(
    "TorchXLAConfig", "there are GPUs and CPUs only; a loop that uses torch_xla by itself may try resources_per_worker", __name__
)

__all__ = ["TorchXLAConfig"]
