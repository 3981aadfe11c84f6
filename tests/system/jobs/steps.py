"""Reports STEPS times, 20 ms apart. Each tenth report has a checkpoint of every rank. Writes a line to FILE-RANK for each report.

usage: steps.py FILE STEPS
"""

import pathlib
import sys
import tempfile
import threading

from rtrain import train

rank = train.get_context().get_world_rank()
lines = pathlib.Path(f"{sys.argv[1]}-{rank}")
for step in range(1, int(sys.argv[2]) + 1):
    threading.Event().wait(0.02)
    checkpoint = None
    if step % 10 == 0:
        folder = pathlib.Path(tempfile.mkdtemp())
        (folder / f"rank-{rank}").write_text(str(step))
        checkpoint = train.Checkpoint.from_directory(folder)
    train.report({"step": step}, checkpoint=checkpoint)
    with lines.open("a") as file:
        file.write(f"{step}\n")
