"""A run that writes a checkpoint only when one is requested, and reports each PAUSE seconds until it is stopped.

usage: asked.py PAUSE
"""

import itertools
import pathlib
import sys
import threading

from rtrain import train

pause = float(sys.argv[1])
for step in itertools.count():
    threading.Event().wait(pause)
    if not train.should_checkpoint() or train.get_context().get_world_rank() != 0:
        train.report({"step": step})
        continue
    with train.checkpoint_dir() as directory:
        (pathlib.Path(directory) / "state.txt").write_text(str(step))
        train.report({"step": step}, checkpoint=train.Checkpoint.from_directory(directory))
