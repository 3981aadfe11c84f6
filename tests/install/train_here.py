"""Fits a line through points on two workers, with PyTorch if it is installed: the first training on a new machine."""

import importlib.util

import rtrain
from rtrain import train


def with_torch(config):
    import torch
    from rtrain.train import torch as rtrain_torch

    model = rtrain_torch.prepare_model(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    x = torch.linspace(-1, 1, 64).reshape(-1, 1)
    for _ in range(config["epochs"]):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), 3 * x + 1)
        loss.backward()
        optimizer.step()
        train.report({"loss": loss.item()})


def plainly(config):
    slope = shift = 0.0
    points = [(i / 32 - 1, 3 * (i / 32 - 1) + 1) for i in range(64)]
    for _ in range(config["epochs"]):
        wrong = [(x, slope * x + shift - y) for x, y in points]
        slope -= 0.4 * sum(x * error for x, error in wrong) / len(wrong)
        shift -= 0.4 * sum(error for _, error in wrong) / len(wrong)
        train.report({"loss": sum(error * error for _, error in wrong) / len(wrong)})


if __name__ == "__main__":
    has_torch = importlib.util.find_spec("torch") is not None
    scaling = train.ScalingConfig(num_workers=2)
    config = {"epochs": 80}
    if has_torch:
        from rtrain.train.torch import TorchTrainer

        result = TorchTrainer(with_torch, train_loop_config=config, scaling_config=scaling).fit()
    else:
        from rtrain.train import DataParallelTrainer

        result = DataParallelTrainer(plainly, train_loop_config=config, scaling_config=scaling).fit()
    how = "torch" if has_torch else "plain Python"
    print(f"trained with {how} on 2 workers: loss {result.metrics['loss']:.4f} (rtrain {rtrain.__version__})")
