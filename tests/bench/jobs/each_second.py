"""Reports once a second until it is stopped."""

import threading
import time

from rtrain import train

begin, step = time.monotonic(), 0
while True:
    step += 1
    threading.Event().wait(max(0.0, begin + step - time.monotonic()))
    train.report({"step": step, "loss": 1 / step, "tokens": 1000 * step})
