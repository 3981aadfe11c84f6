"""Takes GPU memory in its first attempt, by itself and by a child process, and waits to be killed. Each attempt first
reports the used memory of its GPU, before it touches CUDA. usage: holds_memory.py BYTES
"""

import signal
import subprocess
import sys
import time

from gpu_check import nvml
from worker_devices import assigned, hold
from worker_facts import ATTEMPT, tell, wait_for_word

COUNT = int(sys.argv[1])
CHILD = "child" in sys.argv[2:]

if CHILD:
    kept = hold(COUNT)
    print("holds", flush=True)
    signal.pause()

tell("before", used=nvml.memory_used(assigned()[0]), at=time.time())
if ATTEMPT > 1:
    tell("result", attempt=ATTEMPT)
    sys.exit(0)
kept = hold(COUNT)
child = subprocess.Popen([sys.executable, __file__, str(COUNT), "child"], stdout=subprocess.PIPE, text=True)
if child.stdout.readline().strip() != "holds":
    sys.exit("the child holds nothing")
tell("holding", used=nvml.memory_used(assigned()[0]), uuid=assigned()[0], child=child.pid)
wait_for_word("never", 400)
