"""Reports without files as fast as possible, then prints a line."""

import sys

from rtrain import train

count = int(sys.argv[1])
for number in range(1, count + 1):
    train.report({"number": number, "rank": train.get_context().get_world_rank()})
print("passed", count, flush=True)
