"""A run with something to see: reports each PAUSE seconds until it is stopped, with a checkpoint each ten steps, and log lines.

usage: shown.py PAUSE [KEY LINE]     a further metric's name, and a line that is printed
"""

import json
import pathlib
import sys
import threading

from rtrain import train

pause, names = float(sys.argv[1]), sys.argv[2:]
for step in range(1_000_000):
    threading.Event().wait(pause)
    print(f"step {step}", *names[1:], flush=True)
    metrics = {
        "step": step,
        "loss": 2.0 / (1 + step / 20),
        "accuracy": 1 - 1 / (1 + step / 30),
        **{name: step for name in names[:1]},
    }
    if step % 10 != 9 or train.get_context().get_world_rank() != 0:
        train.report(metrics)
        continue
    with train.checkpoint_dir() as directory:
        (pathlib.Path(directory) / "state.json").write_text(json.dumps({"step": step}))
        train.report(metrics, checkpoint=train.Checkpoint.from_directory(directory))
