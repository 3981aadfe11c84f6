"""Every rank reports once. Then rank 1 hangs, and the others wait for it in their next report."""

import os
import threading

from rtrain import train

train.report({"step": 1})
if os.environ["RANK"] == "1":
    threading.Event().wait()
train.report({"step": 2})
