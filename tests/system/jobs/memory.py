"""Allocates memory: `hold MIB` keeps it and waits, `use MIB` keeps it and ends, `leak [GATE]` grows without end (once the
file GATE exists), `loader` leaks in a process that has left its session.
"""

import pathlib
import subprocess
import sys
import threading

PAUSE = threading.Event()


def leak():
    kept = []
    while True:
        kept.append(bytearray(8 << 20))
        PAUSE.wait(0.05)


def main(mode, argument=""):
    if mode in ("hold", "use"):
        kept = bytearray(int(argument) << 20)
        print("holds", flush=True)
        PAUSE.wait(1000 if mode == "hold" else 2)
        return len(kept)
    if mode == "loader":
        return subprocess.Popen([sys.executable, __file__, "leak"], start_new_session=True).wait()
    while argument and not pathlib.Path(argument).exists():
        PAUSE.wait(0.05)
    return leak()


if __name__ == "__main__":
    main(*sys.argv[1:])
