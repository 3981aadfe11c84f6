"""Trains over a DataLoader whose processes read their context and try to report."""

import os
import sys

import torch
from rtrain import train
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, number):
        rank = train.get_context().get_world_rank()
        try:
            train.report({"from": "a loader"})
        except ValueError as error:
            refusal = str(error)
        else:
            refusal = "none"
        return torch.tensor([number, rank]), refusal, os.getpid()


def main(method, epochs):
    train.report({"epoch": 0})
    loader = DataLoader(Numbers(), batch_size=2, num_workers=2, multiprocessing_context=method)
    for epoch in range(1, epochs + 1):
        for numbers, refusals, pids in loader:
            assert os.getpid() not in pids.tolist()
            assert set(numbers[:, 1].tolist()) == {train.get_context().get_world_rank()}
            assert all(f"process {os.getpid()}" in refusal for refusal in refusals), refusals
        train.report({"epoch": epoch})
    print("trained", method, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
