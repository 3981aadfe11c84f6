"""Rank 0 holds the GIL in a call that does not return; the others wait for it in their first report."""

import ctypes
import os

from rtrain import train


def held_in_c():
    left = 600
    while left:  # a signal interrupts sleep, which returns the remaining seconds
        left = ctypes.PyDLL(None).sleep(left)  # PyDLL keeps the GIL


print("in", flush=True)
if os.environ["RANK"] == "0":
    held_in_c()
train.report({"step": 1})
