"""Reads a DataLoader of two processes for ever. Saves a file at SIGTERM, as a training loop would. FOLDER [silent] [alone]

The file `saved-<rank>-<restart>` contains the step. Without `silent` the process reports once, so that it is the rank's
reporting process. With `alone` the loader has no worker processes.
"""

import os
import pathlib
import signal
import sys
import threading
import time

from torch.utils.data import DataLoader, Dataset

SAVE_S = 1.0  # duration of a save, during which the loader is read


class Numbers(Dataset):
    def __len__(self):
        return 10_000_000

    def __getitem__(self, index):
        threading.Event().wait(0.01)
        return index


def main():
    folder, name = pathlib.Path(sys.argv[1]), f"{os.environ['RANK']}-{os.environ['TORCHELASTIC_RESTART_COUNT']}"
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(time.monotonic()))
    if "silent" not in sys.argv:
        from rtrain import train

        train.report({"begins": 1})
    processes = 0 if "alone" in sys.argv else 2
    for step, _ in enumerate(DataLoader(Numbers(), batch_size=1, num_workers=processes)):
        if step == 5:
            (folder / f"reads-{name}").touch()
        if asked and time.monotonic() - asked[0] > SAVE_S:
            (folder / f"saved-{name}").write_text(str(step))
            sys.exit(0)


if __name__ == "__main__":
    main()
