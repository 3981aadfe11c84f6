"""A queue with producers and consumers: a slow consumer holds up the producers, since the queue is bounded."""

from collections import Counter

import rtrain
from rtrain.util.queue import Queue

PRODUCERS, CONSUMERS, ITEMS = 2, 2, 20
END = None


@rtrain.remote(num_cpus=0)
def produces(queue: Queue, number: int) -> None:
    for item in range(ITEMS):
        queue.put((number, item))


@rtrain.remote(num_cpus=0)
def consumes(queue: Queue) -> list[tuple[int, int]]:
    """Takes items until the end, which it leaves for the other consumers."""
    taken = []
    while (item := queue.get()) is not END:
        taken.append(item)
    queue.put(END)
    return taken


if __name__ == "__main__":
    rtrain.init()
    queue = Queue(maxsize=4)
    consumers = [consumes.remote(queue) for _ in range(CONSUMERS)]
    rtrain.get([produces.remote(queue, number) for number in range(PRODUCERS)])
    queue.put(END)
    taken = rtrain.get(consumers)
    counts = Counter(number for part in taken for number, _ in part)
    parts = [[item for producer, item in part if producer == number] for part in taken for number in counts]
    in_order = all(part == sorted(part) for part in parts)
    print(f"{counts.total()} items, {dict(sorted(counts.items()))} by producer, in order: {in_order}")
