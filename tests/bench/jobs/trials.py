"""Eight trials of the digits network: as a sweep with ASHA, two at a time, or one after the other in this process. Measures
the time of the whole process, including imports.
usage: trials.py sweep           prints one JSON line: each trial's config, and how many epochs it trained
       trials.py alone TRIALS    trains the same (that JSON), without rtrain's reports
"""

import json
import sys

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

TRIALS, EPOCHS = 8, 81


def digits():
    pixels, labels = load_digits(return_X_y=True)
    return train_test_split((pixels / 16).astype("float32"), labels, test_size=0.25, random_state=0)


def train_digits(config, data, epochs, report):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    train_x, test_x, train_y, test_y = (torch.tensor(part) for part in data)
    model = nn.Sequential(nn.Linear(64, config["width"]), nn.ReLU(), nn.Linear(config["width"], 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    for _ in range(epochs):
        for rows in torch.randperm(len(train_x)).split(64):
            loss = nn.functional.cross_entropy(model(train_x[rows]), train_y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        report((model(test_x).argmax(dim=1) == test_y).float().mean().item())


def sweep():
    from rtrain import tune
    from rtrain.tune.schedulers import ASHAScheduler

    def trial(config, data):
        train_digits(config, data, EPOCHS, lambda accuracy: tune.report({"accuracy": accuracy}))

    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(trial, data=digits()), {"cpu": 1}),
        param_space={"lr": tune.loguniform(1e-4, 1e-1), "width": tune.choice([64, 256])},
        tune_config=tune.TuneConfig(
            metric="accuracy",
            mode="max",
            num_samples=TRIALS,
            max_concurrent_trials=2,
            scheduler=ASHAScheduler(max_t=EPOCHS, grace_period=1, reduction_factor=3),
            seed=1,
        ),
    )
    results = tuner.fit()
    print("trials " + json.dumps([[one.config, one.metrics["training_iteration"]] for one in results]), flush=True)


def alone(trials):
    data = digits()
    accuracies = []
    for config, epochs in trials:
        train_digits(config, data, epochs, accuracies.append)
    assert len(accuracies) == sum(epochs for _, epochs in trials)


if sys.argv[1] == "sweep":
    sweep()
else:
    alone(json.loads(sys.argv[2]))
