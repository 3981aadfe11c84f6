"""Reports each 20 ms, with a checkpoint each half second, until it is ended. Appends the time of each step to the given
file.
"""

import pathlib
import sys
import tempfile
import threading
import time

from rtrain import train

steps = pathlib.Path(f"{sys.argv[1]}-{train.get_context().get_world_rank()}")
step, saved_at = 0, time.monotonic()
while True:
    threading.Event().wait(0.02)
    step += 1
    if step % 25:
        train.report({"step": step})
    else:
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / "state").write_text(str(step))
            train.report({"step": step}, checkpoint=train.Checkpoint.from_directory(directory))
    with steps.open("a") as file:
        file.write(f"{time.time():.4f}\n")
