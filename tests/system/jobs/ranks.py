"""Each rank writes one file into every checkpoint and reports; resumes from the given checkpoint.

usage: ranks.py STEPS [PAUSE_S [own]]    own: every rank's file has other content
"""

import pathlib
import socket
import sys
import threading

from rtrain import train

steps = int(sys.argv[1])
pause = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
own = sys.argv[3:] == ["own"]
rank = train.get_context().get_world_rank()
first = 0
checkpoint = train.get_checkpoint()
if checkpoint is not None:
    with checkpoint.as_directory() as folder:
        names = sorted(path.name for path in pathlib.Path(folder).glob("rank-*.txt"))
        first = int((pathlib.Path(folder) / f"rank-{rank}.txt").read_text())
        print(f"resumed at {first} with {names}", flush=True)
for step in range(first, steps):
    with train.checkpoint_dir() as folder:
        (pathlib.Path(folder) / f"rank-{rank}.txt").write_text(str(step + 1) + " " * rank * own)
        train.report({"step": step + 1, "host": socket.gethostname()}, checkpoint=train.Checkpoint.from_directory(folder))
    threading.Event().wait(pause)
print(f"rank {rank} is through", flush=True)
