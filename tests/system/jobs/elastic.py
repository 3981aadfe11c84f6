"""Counts steps over all attempts. Rank 0 writes a checkpoint every EVERY steps and whenever one is requested.

usage: elastic.py STEPS PAUSE EVERY
"""

import json
import pathlib
import sys
import threading

import rtrain.train

steps, pause, every = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
context = rtrain.train.get_context()
resume = rtrain.train.get_checkpoint()
first = 0
if resume is not None:
    first = json.loads((pathlib.Path(resume.path) / "state.json").read_text())["step"] + 1
resized = rtrain.train.resize_info()
print(f"attempt {context.get_attempt()} from step {first} with {context.get_world_size()} ranks, "
      f"before {resized.previous_world_size}", flush=True)  # fmt: skip
for step in range(first, steps):
    threading.Event().wait(pause)
    wanted = rtrain.train.checkpoint_wanted()
    if wanted is not None:
        print(f"wanted for {wanted.reason} at step {step}", flush=True)
    metrics = {"step": step, "ranks": context.get_world_size()}
    if context.get_world_rank() == 0 and (wanted is not None or step % every == every - 1):
        with rtrain.train.checkpoint_dir() as directory:
            (pathlib.Path(directory) / "state.json").write_text(json.dumps({"step": step}))
            rtrain.train.report(metrics, checkpoint=rtrain.train.Checkpoint.from_directory(directory))
    else:
        rtrain.train.report(metrics)
