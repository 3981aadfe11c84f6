"""A streaming generator: the driver sums up batches while a function still reads later ones."""

from collections.abc import Iterator

import rtrain


@rtrain.remote
def reads(rows: int, batch: int) -> Iterator[list[int]]:
    """Yields the rows in batches. At most 64 of them, or what the caller asks for, are ahead of the caller."""
    for first in range(0, rows, batch):
        yield list(range(first, min(first + batch, rows)))


@rtrain.remote
def squared(rows: list[int]) -> int:
    return sum(row * row for row in rows)


class Tokens:
    """An actor whose method streams, as a language model does."""

    async def answer(self, question: str):  # type: ignore[no-untyped-def]
        for word in question.split():
            yield word.upper()


if __name__ == "__main__":
    rtrain.init()
    total, first = 0, None
    for ref in reads.options(_generator_backpressure_num_objects=2).remote(1000, 250):
        first = first or rtrain.get(ref)[:3]
        total += rtrain.get(squared.remote(ref))
    words = [rtrain.get(word) for word in rtrain.remote(Tokens).remote().answer.remote("one word at a time")]
    print(f"squares of 1000 rows: {total}, begins with {first}; {' '.join(words)}")
