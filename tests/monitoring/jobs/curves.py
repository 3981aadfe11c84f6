"""Reports as fast as possible. The first attempt makes a checkpoint and dies some reports later. The next attempt resumes
from it.

usage: curves.py CHECKPOINT_AT DIES_AT END
"""

import json
import os
import pathlib
import sys

from rtrain import train

checkpoint_at, dies_at, end = map(int, sys.argv[1:])
restored = train.get_checkpoint()
step = 0
if restored:
    with restored.as_directory() as place:
        step = json.loads((pathlib.Path(place) / "step.json").read_text())
while step < end:
    step += 1
    metrics = {"loss": (step * 7919) % 1000 / 8, "step": step, "first": restored is None}
    if step == checkpoint_at and not restored:
        with train.checkpoint_dir() as place:
            (pathlib.Path(place) / "step.json").write_text(json.dumps(step))
            train.report(metrics, checkpoint=train.Checkpoint.from_directory(place))
    else:
        train.report(metrics)
    if step == dies_at and not restored:
        os._exit(3)
