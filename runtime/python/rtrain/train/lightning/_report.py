"""Reports each training epoch of Lightning, with Lightning's own checkpoint."""

from __future__ import annotations

import pathlib
from typing import Any

from rtrain import train
from rtrain._lazy import public_in
from rtrain.train.lightning._lightning import Callback
from rtrain.train.torch._place import place


class RTrainReportCallback(Callback):
    """Reports the logged metrics, `epoch`, `step` and a checkpoint at the end of each training epoch.

    Use it by `Trainer(callbacks=[RTrainReportCallback()])`. The checkpoint is the file (for sharded models the
    folder) `checkpoint.ckpt`. Resume with `trainer.fit(model, ckpt_path=os.path.join(directory,
    "checkpoint.ckpt"))`. The arguments are those of `rtrain.train.report`.
    """

    CHECKPOINT_NAME = "checkpoint.ckpt"

    def __init__(self, checkpoint_upload_mode: train.CheckpointUploadMode | None = None, validation: Any = False) -> None:
        super().__init__()
        self._options: dict[str, Any] = {"checkpoint_upload_mode": checkpoint_upload_mode}
        if validation:
            self._options["validation"] = validation

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Reports the epoch. Lightning calls it at the end of each training epoch."""
        metrics: dict[str, Any] = {name: value.item() for name, value in trainer.callback_metrics.items()}
        metrics.update(epoch=trainer.current_epoch, step=trainer.global_step)
        here = place()
        with train.checkpoint_dir() as own:
            directory = pathlib.Path(trainer.strategy.broadcast(own))
            saved = directory / self.CHECKPOINT_NAME
            trainer.save_checkpoint(str(saved), weights_only=False)
            # A sharded checkpoint has parts on every node, and one rank of each node reports them. Otherwise rank 0
            # reports the whole checkpoint.
            brings = here.world_rank == 0 or (here.local_rank == 0 and saved.is_dir())
            checkpoint = train.Checkpoint.from_directory(directory) if brings else None
            train.report(metrics, checkpoint=checkpoint, **self._options)


RayTrainReportCallback = RTrainReportCallback


public_in("rtrain.train.lightning", RTrainReportCallback)
