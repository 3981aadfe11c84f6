"""Defines a callback that makes a report of each checkpoint which a `transformers.Trainer` saves."""

from __future__ import annotations

import pathlib
import re
import shutil
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rtrain import train
from rtrain._lazy import public_in
from rtrain.train.torch._place import place

_RANK_IN_NAME = re.compile(r"^(?:rng_state_|__|.*_rank_)(\d+)[._]")


class RTrainReportCallback(TrainerCallback):
    """Reports every save of a Trainer, with its files and the newest of all logged metrics.

    Use it by `trainer.add_callback(RTrainReportCallback())`. A training without saves is reported once, at its end,
    without a checkpoint. The files are in the checkpoint's folder `checkpoint`. Resume with
    `trainer.train(resume_from_checkpoint=os.path.join(directory, "checkpoint"))`.
    """

    CHECKPOINT_NAME = "checkpoint"

    def __init__(self) -> None:
        self._reported = False

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_unused: Any
    ) -> TrainerControl:
        """Called by the Trainer when the training begins.

        Raises RuntimeError if the Trainer's number of processes is not the run's number of workers.
        """
        here = place()
        if args.world_size != here.world_size:
            raise RuntimeError(
                f"the Trainer sees {args.world_size} process(es), but this run has {here.world_size} workers; without GPUs "
                "give it TrainingArguments(use_cpu=True), and let nothing else of Accelerate's state be made before"
            )
        return control

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_unused: Any) -> TrainerControl:
        """Called by the Trainer after a save: reports it."""
        saved = pathlib.Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        metrics = _newest(state)
        self._reported = True
        own_files = _own_files(saved)
        if not own_files:
            train.report(metrics)
            return control
        with train.checkpoint_dir() as directory:
            _copy(saved, own_files, pathlib.Path(directory) / self.CHECKPOINT_NAME)
            train.report(metrics, checkpoint=train.Checkpoint.from_directory(directory))
        return control

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_unused: Any
    ) -> TrainerControl:
        """Called by the Trainer when the training ends: reports the logged metrics if no save was reported."""
        if not self._reported:
            train.report(_newest(state))
        return control


RayTrainReportCallback = RTrainReportCallback


def _newest(state: TrainerState) -> dict[str, Any]:
    metrics: dict[str, Any] = {"step": state.global_step, "epoch": state.epoch}
    for entry in state.log_history:
        metrics.update(entry)
    return metrics


def _own_files(saved: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files that this rank reports. These are the files with the rank's number in their name (random
    states, shards), and on rank 0 also the files without a number.
    """
    here = place()
    files = sorted(path for path in saved.rglob("*") if path.is_file())
    return [path for path in files if _owner(path.name, here.world_size) == here.world_rank]


def _owner(name: str, world_size: int) -> int:
    numbered = _RANK_IN_NAME.match(name)
    owner = int(numbered.group(1)) if numbered else 0
    return owner if owner < world_size else 0


def _copy(root: pathlib.Path, files: list[pathlib.Path], target: pathlib.Path) -> None:
    for path in files:
        copied = target / path.relative_to(root)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copied)


public_in("rtrain.train.huggingface.transformers", RTrainReportCallback)
