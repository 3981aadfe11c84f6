"""A checkpoint with a model of XGBoost."""

from __future__ import annotations

import pathlib
from typing import Any

from rtrain import _own_folders
from rtrain._lazy import public_in
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._trees._reports import model_of


class XGBoostCheckpoint(Checkpoint):
    """A checkpoint whose file `model.json` is a model of XGBoost."""

    MODEL_FILENAME = "model.json"

    @classmethod
    def from_model(cls, booster: Any) -> XGBoostCheckpoint:
        """Returns a checkpoint of a Booster, in a directory of its own that lives as long as this process."""
        folder = _own_folders.new_folder("rtrain-checkpoint-")
        checkpoint = cls(folder)
        _own_folders.belongs_to(checkpoint, folder)
        booster.save_model(str(pathlib.Path(folder) / cls.MODEL_FILENAME))
        return checkpoint

    def get_model(self) -> Any:
        """Returns the Booster. FileNotFoundError if the checkpoint has no `model.json`."""
        import xgboost

        return model_of(self, self.MODEL_FILENAME, lambda path: xgboost.Booster(model_file=path))


public_in("rtrain.train.xgboost", XGBoostCheckpoint)
