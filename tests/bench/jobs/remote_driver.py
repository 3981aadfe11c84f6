"""A driver that calls remote functions one after the other, each in a new process. Prints one JSON line with the seconds
from each call to its result. usage: remote_driver.py COUNT
"""

import json
import sys
import time

import rtrain

rtrain.init("auto")


@rtrain.remote(num_cpus=1, max_calls=1)
def answer(number):
    return number + 1


seconds = []
for number in range(int(sys.argv[1])):
    begin = time.perf_counter()
    assert rtrain.get(answer.remote(number)) == number + 1
    seconds.append(time.perf_counter() - begin)
print("measured " + json.dumps(seconds), flush=True)
