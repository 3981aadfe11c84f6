"""A parameter server: two workers send gradients of a line's loss to an actor, which holds the weights."""

import random

import rtrain
from rtrain.actor import ActorHandle

SLOPE, SHIFT = 3.0, -1.0


class Weights:
    """The slope and the shift of the line, which every worker reads and changes."""

    def __init__(self, rate: float) -> None:
        self.values = [0.0, 0.0]
        self.rate = rate
        self.updates = 0

    def read(self) -> list[float]:
        return self.values

    def subtract(self, gradient: list[float]) -> list[float]:
        self.values = [value - self.rate * slope for value, slope in zip(self.values, gradient, strict=True)]
        self.updates += 1
        return self.values

    def count(self) -> int:
        return self.updates


@rtrain.remote
def trains(weights: ActorHandle, seed: int, steps: int) -> None:
    """Takes steps on random points. The weights may change between reading and writing: that is part of the method."""
    points = random.Random(seed)
    slope, shift = rtrain.get(weights.read.remote())
    for _ in range(steps):
        x = points.uniform(-1, 1)
        error = slope * x + shift - (SLOPE * x + SHIFT)
        slope, shift = rtrain.get(weights.subtract.remote([error * x, error]))


if __name__ == "__main__":
    rtrain.init()
    server = rtrain.remote(Weights).remote(0.2)
    rtrain.get([trains.remote(server, seed, 200) for seed in range(2)])
    slope, shift = rtrain.get(server.read.remote())
    print(f"y = {slope:.2f} x + {shift:.2f} after {rtrain.get(server.count.remote())} updates")
