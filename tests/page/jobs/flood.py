"""A run whose log is long: LINES lines of 100 bytes at once, then one line each PAUSE seconds until it is stopped.

usage: flood.py LINES PAUSE     PAUSE 0: it ends after its lines
"""

import itertools
import sys
import threading

lines, pause = int(sys.argv[1]), float(sys.argv[2])
for number in range(lines):
    print(f"flood {number} ".ljust(99, "."))
for tick in itertools.count() if pause > 0 else ():
    print(f"tick {tick}", flush=True)
    threading.Event().wait(pause)
