"""Reports as a training makes them for each batch: a loss, a learning rate, a gradient's norm, a time, and a counter."""

import math
import random
import sys
import time

from rtrain import train

dice = random.Random(1)
begin = time.perf_counter()
for number in range(int(sys.argv[1])):
    loss = 8 * math.exp(-number / 2e5) + abs(dice.gauss(0, 0.3))
    now = time.perf_counter()
    train.report(
        {
            "loss": loss, "learning_rate": 3e-4 * (1 + math.cos(number / 4e5)) / 2, "grad_norm": dice.lognormvariate(0, 0.5),
            "step_seconds": now - begin, "tokens": 4096 * (number + 1),
        }
    )  # fmt: skip
    begin = now
