"""TorchCheckpoint of older scripts: a checkpoint of one file with a model or its state."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from rtrain import _own_folders
from rtrain._lazy import public_in
from rtrain.train._checkpoint import Checkpoint

_FILE = "model.pt"


class TorchCheckpoint(Checkpoint):
    """A Checkpoint whose directory has the file `model.pt`."""

    @classmethod
    def from_state_dict(cls, state_dict: Mapping[str, Any], *, preprocessor: Any = None) -> TorchCheckpoint:
        """Returns a checkpoint of the result of `model.state_dict()`. `preprocessor` must be None."""
        return cls._of(dict(state_dict), preprocessor)

    @classmethod
    def from_model(cls, model: Any, *, preprocessor: Any = None) -> TorchCheckpoint:
        """Returns a checkpoint of a whole pickled model. To read it, the model's class is needed. `preprocessor`
        must be None.
        """
        return cls._of(getattr(model, "module", model), preprocessor)

    def get_model(self, model: Any = None) -> Any:
        """Returns the model on the CPU. If the checkpoint holds a state dict, loads it into `model` and returns
        that.

        The file is unpickled, so read only checkpoints that you trust.
        """
        import torch

        with self.as_directory() as folder:
            model_or_state = torch.load(pathlib.Path(folder) / _FILE, map_location="cpu", weights_only=False)
        if isinstance(model_or_state, torch.nn.Module):
            return model_or_state
        if model is None:
            raise ValueError("this checkpoint has a state dict: give get_model(model=) the model that takes it")
        plain = {name.removeprefix("module."): value for name, value in model_or_state.items()}
        model.load_state_dict(plain)
        return model

    @classmethod
    def _of(cls, value: Any, preprocessor: Any) -> TorchCheckpoint:
        import torch

        if preprocessor is not None:
            raise ValueError("a TorchCheckpoint keeps no preprocessor; save it in the loop, into the same directory")
        folder = _own_folders.new_folder("rtrain-checkpoint-")
        checkpoint = cls(folder)
        _own_folders.belongs_to(checkpoint, folder)
        torch.save(value, pathlib.Path(folder) / _FILE)
        checkpoint._owned = True
        return checkpoint


public_in("rtrain.train.torch", TorchCheckpoint)
