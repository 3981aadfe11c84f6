"""Trains with steps of 20 ms and a loader that takes LOAD_S seconds for each batch.

usage: slow_loader.py LOAD_S
"""

import sys
import threading

import torch
from rtrain import train
from rtrain.train import torch as rt
from torch.utils.data import DataLoader, Dataset

load_s = float(sys.argv[1])


class Slow(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        threading.Event().wait(load_s)
        return torch.zeros(4)


train.get_context()
for step, _batch in enumerate(rt.prepare_data_loader(DataLoader(Slow(), 1)), 1):
    threading.Event().wait(0.02)
    if step % 10 == 0:
        train.report({"step": step})
