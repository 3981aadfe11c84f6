"""MapReduce: counts words. Each mapper returns one part for each reducer, and parts go from worker to worker by refs."""

from collections import Counter
from typing import Any
from zlib import crc32

import rtrain

REDUCERS = 2
TEXTS = [
    "the queue is long and the cluster is small",
    "the cluster grows and the queue is short",
    "a small job waits in the queue",
]


def maps(text: str) -> list[Counter[str]]:
    """Returns the counts of a text's words, in one part for each reducer."""
    parts: list[Counter[str]] = [Counter() for _ in range(REDUCERS)]
    for word in text.split():
        parts[crc32(word.encode()) % REDUCERS][word] += 1
    return parts


@rtrain.remote
def reduces(*parts: Counter[str]) -> Counter[str]:
    return sum(parts, Counter[str]())


if __name__ == "__main__":
    rtrain.init()
    mapper = rtrain.remote(maps).options(num_returns=REDUCERS)
    mapped: list[list[Any]] = [mapper.remote(text) for text in TEXTS]
    reduced = [reduces.remote(*[parts[number] for parts in mapped]) for number in range(REDUCERS)]
    counts = sum(rtrain.get(reduced), Counter[str]())
    print(", ".join(f"{word} {count}" for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:4]))
