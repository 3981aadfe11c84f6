"""Trains on a plain DataLoader, and writes the rows of each step into FOLDER. In the first attempt rank 1 is killed in mid-epoch.

usage: plain_loader.py FOLDER
"""

import json
import os
import pathlib
import signal
import sys
import threading

from rtrain import train
from rtrain.train.torch import prepare_data_loader
from torch.utils.data import DataLoader, Dataset

ROWS, TOGETHER, EPOCHS = 92, 8, 3


class Rows(Dataset):
    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        return index


context = train.get_context()
ranks, rank, attempt = context.get_world_size(), context.get_world_rank(), context.get_attempt()
loader = prepare_data_loader(DataLoader(Rows(), TOGETHER // ranks, shuffle=True, num_workers=1, prefetch_factor=4))
checkpoint, epoch, step = train.get_checkpoint(), 0, 0
if checkpoint is not None:
    saved = json.loads((pathlib.Path(checkpoint.path) / "state.json").read_text())
    epoch, step = saved["epoch"], saved["step"]
    loader.load_state_dict(saved["loader"])
lines = pathlib.Path(sys.argv[1], f"{attempt}-{rank}.jsonl")
while epoch < EPOCHS:
    loader.sampler.set_epoch(epoch)
    for batch in loader:
        step += 1
        with lines.open("a", encoding="utf-8") as delivered:
            delivered.write(json.dumps({"epoch": epoch, "step": step, "rows": batch.tolist()}) + "\n")
        if (attempt, rank, step) == (1, 1, 8):
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Event().wait(0.3)
        metrics = {"epoch": epoch, "step": step, "ranks": ranks}
        if rank == 0 and (step % 3 == 0 or train.should_checkpoint()):
            with train.checkpoint_dir() as folder:
                state = {"epoch": epoch, "step": step, "loader": loader.state_dict()}
                pathlib.Path(folder, "state.json").write_text(json.dumps(state))
                train.report(metrics, checkpoint=folder)
        else:
            train.report(metrics)
    epoch += 1
