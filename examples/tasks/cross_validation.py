"""Cross-validation: each fold of each model is a call. The data are put once, and go to every call by their ref."""

import random
from typing import Any

import rtrain

Row = tuple[float, float]
FOLDS = 5


def data(count: int) -> list[Row]:
    noise = random.Random(0)
    return [(x, x * x + noise.gauss(0, 0.05)) for x in (noise.uniform(-1, 1) for _ in range(count))]


@rtrain.remote
def error(rows: list[Row], neighbours: int, fold: int) -> float:
    """Returns the mean squared error of k nearest neighbours on one fold, learnt from the others."""
    train = [row for number, row in enumerate(rows) if number % FOLDS != fold]
    test = rows[fold::FOLDS]
    total = 0.0
    for x, y in test:
        nearest = sorted(train, key=lambda row: abs(row[0] - x))[:neighbours]
        total += (sum(value for _, value in nearest) / neighbours - y) ** 2
    return total / len(test)


if __name__ == "__main__":
    rtrain.init()
    rows: Any = rtrain.put(data(200))
    models = (1, 5, 25, 100)
    folds = {neighbours: [error.remote(rows, neighbours, fold) for fold in range(FOLDS)] for neighbours in models}
    errors = {neighbours: sum(rtrain.get(refs)) / FOLDS for neighbours, refs in folds.items()}
    for neighbours, mean in errors.items():
        print(f"{neighbours} neighbours: {mean:.4f}")
    print(f"the best is {min(errors, key=lambda neighbours: errors[neighbours])}")
