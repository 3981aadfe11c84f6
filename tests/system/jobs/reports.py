"""Reports without files, as fast as they go, and prints that all have passed."""

import sys

from rtrain import train

count = int(sys.argv[1])
for number in range(1, count + 1):
    train.report({"number": number, "rank": train.get_context().get_world_rank()})
print("passed", count, flush=True)
