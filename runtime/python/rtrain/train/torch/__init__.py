"""PyTorch inside a training function: process group, model, loaders, devices, reproducibility.

`prepare_model`, `prepare_data_loader` and the rest work in a worker, under torchrun and in a single process.
"""

from rtrain.train.torch._config import TorchConfig
from rtrain.train.torch._global_batch import GlobalBatches, MicroBatch
from rtrain.train.torch._group import setup_process_group, shutdown_process_group
from rtrain.train.torch._loader import prepare_data_loader
from rtrain.train.torch._mesh import device_mesh
from rtrain.train.torch._model import prepare_model
from rtrain.train.torch._place import get_device, get_devices
from rtrain.train.torch._reproducible import enable_reproducibility
from rtrain.train.torch._trainer import TorchTrainer
from rtrain.train.torch._v1 import accelerate, backward, prepare_optimizer
from rtrain.train.torch._v1_checkpoint import TorchCheckpoint

__all__ = [
    "GlobalBatches",
    "MicroBatch",
    "TorchCheckpoint",
    "TorchConfig",
    "TorchTrainer",
    "accelerate",
    "backward",
    "device_mesh",
    "enable_reproducibility",
    "get_device",
    "get_devices",
    "prepare_data_loader",
    "prepare_model",
    "prepare_optimizer",
    "setup_process_group",
    "shutdown_process_group",
]
