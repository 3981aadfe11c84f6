"""Writes the facts of a row's worker to files, and waits for the row: the same under rtrain and under torchrun."""

import json
import os
import pathlib

from local_cluster import wait_for

FOLDER = pathlib.Path(os.environ["GPU_CHECK_FACTS"])
RUN = os.environ.get("GPU_CHECK_RUN") or os.environ["RTRAIN_RUN_NAME"]  # GPU_CHECK_RUN is set under torchrun only
RANK = int(os.environ.get("RANK", "0"))
ATTEMPT = int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0) + 1


def tell(what, **facts):
    """Facts of this rank and attempt, whole or not at all."""
    file = FOLDER / f"{RUN}-a{ATTEMPT}-r{RANK}-{what}.json"
    aside = file.with_suffix(".part")
    aside.write_text(json.dumps(facts))
    aside.rename(file)


def wait_for_word(word, seconds=240):
    """Waits for the file `word`, which the check creates."""
    wait_for(f"the row to say {word}", (FOLDER / word).exists, seconds, 0.02)
