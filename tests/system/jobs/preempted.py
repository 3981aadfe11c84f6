"""Trains until a checkpoint is requested for a preemption; writes the announced deadline to FACTS-<attempt>."""

import os
import pathlib
import sys
import tempfile
import threading

from rtrain import train

facts = pathlib.Path(f"{sys.argv[1]}-{int(os.environ['TORCHELASTIC_RESTART_COUNT']) + 1}")
facts.write_text("begins\n")
while True:
    info = train.get_preemption_info()
    if info is None:
        train.report({"step": 1})
        threading.Event().wait(0.05)
        continue
    with open(facts, "a") as file:
        file.write(f"{info.deadline_ms} {list(info.preempted_node_to_ranks)}\n")
    with tempfile.TemporaryDirectory() as directory:
        (pathlib.Path(directory) / "state").write_text("here")
        train.report({"step": 2}, checkpoint=train.Checkpoint.from_directory(directory))
    threading.Event().wait(60)
