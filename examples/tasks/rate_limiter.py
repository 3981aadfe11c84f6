"""A rate limiter: an async actor lets at most `burst` calls through at once, and `rate` a second after that."""

import asyncio
import time

import rtrain
from rtrain.actor import ActorHandle


class Limiter:
    """A bucket of tokens. Callers wait in `take` until there is one; thousands of them may wait at a time."""

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.tokens = rate, asyncio.Queue[None](burst)
        for _ in range(burst):
            self.tokens.put_nowait(None)
        self.refill = asyncio.create_task(self._refill())

    async def _refill(self) -> None:
        while True:
            await asyncio.sleep(1 / self.rate)
            if not self.tokens.full():
                self.tokens.put_nowait(None)

    async def take(self) -> None:
        await self.tokens.get()


@rtrain.remote
def requests(limiter: ActorHandle, count: int) -> list[float]:
    """Makes requests to a service that is limited. Returns when each was made."""
    times = []
    for _ in range(count):
        rtrain.get(limiter.take.remote())
        times.append(time.time())
    return times


if __name__ == "__main__":
    rtrain.init()
    limiter = rtrain.remote(Limiter).remote(rate=20, burst=4)
    times = sorted(sum(rtrain.get([requests.remote(limiter, 8) for _ in range(2)]), []))
    most = max(sum(begin <= made_at < begin + 0.5 for made_at in times) for begin in times)
    print(f"{len(times)} requests, at most {most} in half a second")
