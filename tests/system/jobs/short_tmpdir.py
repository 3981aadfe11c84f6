"""Reads a DataLoader with one process, and prints facts of its temporary directory and its user as JSON. With `bare` it uses
no DataLoader, for an interpreter without PyTorch.
"""

import getpass
import json
import os
import sys
import tempfile
from multiprocessing.connection import Listener


def loaded_total():
    import torch
    from torch.utils.data import DataLoader

    rows = [torch.full((4,), float(i)) for i in range(8)]
    return sum(float(batch.sum()) for batch in DataLoader(rows, num_workers=1))


def main():
    total = None if "bare" in sys.argv else loaded_total()
    # multiprocessing creates such a socket to pass a tensor's file between processes
    with Listener(family="AF_UNIX") as listener:
        longest = len(listener.address)
    tmpdir = os.environ["TMPDIR"]
    facts = {
        "total": total,
        "tmpdir": tmpdir,
        "longest": longest,
        "python": tempfile.gettempdir(),
        "target": os.path.realpath(tmpdir),
        "mode": os.stat(tmpdir).st_mode & 0o7777,
        "scratch": os.path.realpath(os.environ["RTRAIN_SCRATCH_DIR"]),
        "user": getpass.getuser(),
        "logname": os.environ["LOGNAME"],
        "home": os.path.expanduser("~"),
    }
    print("facts " + json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
