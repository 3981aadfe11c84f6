"""A driver that calls an empty remote function many times, beside a ProcessPoolExecutor. Prints one JSON line.
usage: tasks_driver.py CALLS ROUNDS SINGLE_CALLS
"""

import concurrent.futures
import json
import sys
import time

import rtrain


def empty():
    pass


def together(calls):
    """Returns the seconds from the first call to the last result."""
    begin = time.perf_counter()
    rtrain.get([remote_empty.remote() for _ in range(calls)])
    return time.perf_counter() - begin


def executor_together(executor, calls):
    begin = time.perf_counter()
    for future in [executor.submit(empty) for _ in range(calls)]:
        future.result()
    return time.perf_counter() - begin


def single(call, count):
    seconds = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return sorted(seconds)


if __name__ == "__main__":
    calls, rounds, singles = map(int, sys.argv[1:])
    rtrain.init("auto")
    remote_empty = rtrain.remote(empty)
    begin = time.perf_counter()
    rtrain.get(remote_empty.remote())
    cold = time.perf_counter() - begin
    together(calls)
    with concurrent.futures.ProcessPoolExecutor(2) as executor:
        executor_together(executor, calls)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(together(calls))
            theirs.append(executor_together(executor, calls))
        measured = {
            "cold": cold,
            "ours": ours,
            "theirs": theirs,
            "single": single(lambda: rtrain.get(remote_empty.remote()), singles),
            "their_single": single(lambda: executor.submit(empty).result(), singles),
        }
    print("measured " + json.dumps(measured), flush=True)
