"""Fires the events of a schedule (../recovery/fates.py) inside a job and writes the rows of each step to a file."""

import json
import os
import pathlib
import signal
import threading
import time

from rtrain import train

_PAUSE = 0.05  # seconds between two steps, in which the head can start a resize


class Fate:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.schedule = json.loads((self.folder / "schedule.json").read_text())
        self.together = self.schedule["together"]
        context = train.get_context()
        self.rank, self.ranks = context.get_world_rank(), context.get_world_size()
        self.lines = self.folder / f"{context.get_attempt()}-{self.rank}.jsonl"

    def saved(self):
        """Returns the state of the newest checkpoint; None if there is none."""
        checkpoint = train.get_checkpoint()
        if checkpoint is None:
            return None
        with checkpoint.as_directory() as folder:
            return json.loads((pathlib.Path(folder) / "state.json").read_text())

    def step(self, epoch, step, rows, state_dict, processes=()):
        """Writes the rows of a step to the rank's file, fires the step's events, and reports. `state_dict` returns the state
        to save.
        """
        with self.lines.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"epoch": epoch, "step": step, "rows": rows}) + "\n")
        for number, event in enumerate(self.schedule["events"]):
            if event["step"] == step and not (self.folder / f"fired-{number}").exists():
                self._fire(number, event, processes)
        threading.Event().wait(_PAUSE)
        metrics = {"epoch": epoch, "step": step, "ranks": self.ranks}
        if self.rank == 0 and (step % self.schedule["saves"] == 0 or train.should_checkpoint()):
            with train.checkpoint_dir() as folder:
                state = {"epoch": epoch, "step": step, "data": state_dict()}
                (pathlib.Path(folder) / "state.json").write_text(json.dumps(state))
                train.report(metrics, checkpoint=train.Checkpoint.from_directory(folder))
        else:
            train.report(metrics)

    def _fire(self, number, event, processes):
        fired, asked = self.folder / f"fired-{number}", self.folder / f"asked-{number}"
        if event["kind"] == "resize":
            (self.folder / f"wants-{number}").touch()
            deadline = time.monotonic() + 120
            while not asked.exists():
                if time.monotonic() > deadline:
                    raise TimeoutError("nobody resized the run")
                threading.Event().wait(0.02)
            fired.touch()
        elif event["rank"] % self.ranks == self.rank:
            fired.touch()
            pids = processes() if event["kind"] == "loader" else []
            os.kill(pids[0] if pids else os.getpid(), signal.SIGKILL)
