"""Rank 0 holds the interpreter's lock in a call that does not come back; the others wait for it in their first report."""

import ctypes
import os

from rtrain import train


def held_in_c():
    left = 600
    while left:  # a signal cuts sleep short, and it says by how much
        left = ctypes.PyDLL(None).sleep(left)  # PyDLL keeps the lock


print("in", flush=True)
if os.environ["RANK"] == "0":
    held_in_c()
train.report({"step": 1})
