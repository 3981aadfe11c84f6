"""Pi by Monte Carlo: functions throw points, an actor counts how far they are."""

import random

import rtrain
from rtrain.actor import ActorHandle

TASKS, POINTS, PIECES = 3, 200_000, 4


class Progress:
    """Counts points that were thrown, while the functions run."""

    def __init__(self) -> None:
        self.thrown = 0

    def add(self, points: int) -> None:
        self.thrown += points

    def share(self) -> float:
        return self.thrown / (TASKS * POINTS)


@rtrain.remote
def throws(seed: int, progress: ActorHandle) -> int:
    """Returns how many of POINTS random points of the unit square lie in the quarter of the circle."""
    points = random.Random(seed)
    inside = 0
    for _ in range(PIECES):
        for _ in range(POINTS // PIECES):
            x, y = points.random(), points.random()
            inside += x * x + y * y <= 1
        progress.add.remote(POINTS // PIECES)
    return inside


if __name__ == "__main__":
    rtrain.init()
    progress = rtrain.remote(Progress).remote()
    waiting = [throws.remote(seed, progress) for seed in range(TASKS)]
    inside = 0
    while waiting:
        ready, waiting = rtrain.wait(waiting)
        inside += sum(rtrain.get(ready))
        print(f"{rtrain.get(progress.share.remote()):.0%} thrown")
    while rtrain.get(progress.share.remote()) < 1:
        pass  # the last calls of `add` may arrive behind the result
    print(f"all thrown: pi is about {4 * inside / (TASKS * POINTS):.3f}")
