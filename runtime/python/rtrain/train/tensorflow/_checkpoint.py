"""A checkpoint with a Keras model."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

from rtrain import _own_folders
from rtrain._lazy import public_in
from rtrain.train._checkpoint import Checkpoint


class TensorflowCheckpoint(Checkpoint):
    """A checkpoint whose file `model.keras` is a Keras model, with its optimizer."""

    MODEL_FILENAME = "model.keras"

    @classmethod
    def from_model(cls, model: Any) -> TensorflowCheckpoint:
        """Returns a checkpoint of a Keras model, in a directory of its own that lives as long as this process."""
        folder = _own_folders.new_folder("rtrain-checkpoint-")
        checkpoint = cls(folder)
        _own_folders.belongs_to(checkpoint, folder)
        model.save(str(pathlib.Path(folder) / cls.MODEL_FILENAME))
        return checkpoint

    def get_model(self, load: Callable[[str], Any] | None = None) -> Any:
        """Returns the model. FileNotFoundError if the checkpoint has no `model.keras`.

        load: loads a model's file; None: `tf.keras.models.load_model`. Call it in the strategy's scope.
        """
        if load is None:
            import tensorflow as tf

            load = tf.keras.models.load_model
        with self.as_directory() as folder:
            file = pathlib.Path(folder) / self.MODEL_FILENAME
            if not file.is_file():
                names = ", ".join(sorted(path.name for path in pathlib.Path(folder).iterdir() if not path.name.startswith(".")))
                raise FileNotFoundError(
                    f"the checkpoint {self.path} has no file {self.MODEL_FILENAME!r}; it has {names or 'none'}"
                )
            return load(str(file))


public_in("rtrain.train.tensorflow", TensorflowCheckpoint)
