"""Reports, waits until a file exists, and reports again. Before the second report it starts a child process that tries to
report for the same rank.
"""

import pathlib
import subprocess
import sys

from rtrain import train

CHILD = """
from rtrain import train
try:
    print(train.get_context().get_world_rank(), flush=True)
    train.report({"from": "child"})
except ValueError as error:
    print(error, flush=True)
"""


def main(go):
    train.report({"from": "parent"})
    go.with_suffix(".waits").touch()
    while not go.exists():
        train.should_checkpoint()
    printed = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True).stdout
    go.with_suffix(".said").write_text(printed)
    train.report({"from": "parent"})


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
