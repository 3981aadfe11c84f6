"""rtrain: train PyTorch models on many machines. `rtrain.train` is what a training script uses."""

from rtrain import train

__version__ = "0.1.0"
__all__ = ["__version__", "train"]
