"""Reports without a checkpoint as fast as possible. Rank 0 prints the median in microseconds."""

import sys
import time

from rtrain import train

rounds = int(sys.argv[1])
micros = []
for number in range(rounds):
    begin = time.perf_counter()
    train.report({"number": number})
    micros.append((time.perf_counter() - begin) * 1e6)
micros.sort()
if train.get_context().get_world_rank() == 0:
    print(f"report_us p50 {micros[rounds // 2]:.1f} p99 {micros[rounds * 99 // 100]:.1f}", flush=True)
