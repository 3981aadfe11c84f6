"""Measures the cost of `import rtrain` for a script, in addition to the start of the interpreter."""

import os
import statistics
import subprocess
import sys
import time

from local_cluster import ROOT

ROUNDS = 25
STATEMENTS = {
    "bare": "pass",
    "rtrain": "import rtrain",
    "train": "from rtrain import train",
    "all of ssl": "import ssl, urllib.request",  # for comparison: the imports of any HTTPS client with the standard library
}


def import_(work):
    """`import rtrain` beside the start of a bare interpreter: <= 100 ms more, without torch"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "runtime" / "python"), "PYTHONPYCACHEPREFIX": str(work / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    took = {name: [] for name in STATEMENTS}
    for number in range(ROUNDS + 1):
        for name, statement in STATEMENTS.items():
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], env=environment, cwd=work, check=True)
            if number:  # the first round fills caches for the others
                took[name].append(1e3 * (time.perf_counter() - begin))
    middle = {name: statistics.median(times) for name, times in took.items()}
    more = {name: middle[name] - middle["bare"] for name in STATEMENTS}
    check = "import sys; from rtrain import train; sys.exit(bool({'torch', 'numpy', 'pyarrow', 'yaml', 'zstandard', 'cloudpickle'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", check], env=environment, cwd=work, check=True)
    reached = f"{more['rtrain']:.0f} ms, with `rtrain.train` {more['train']:.0f} ms"
    how = (
        f"beyond a bare interpreter's {middle['bare']:.0f} ms; medians of {ROUNDS} fresh interpreters each, alternating; "
        f"`import ssl, urllib.request` {more['all of ssl']:.0f} ms; neither torch nor numpy nor pyarrow nor another package is loaded"
    )
    return reached, how
