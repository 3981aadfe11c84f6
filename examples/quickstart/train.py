import rtrain.train
import torch
from rtrain.train import ScalingConfig
from rtrain.train.torch import TorchTrainer, prepare_model


def train_loop() -> None:
    model = prepare_model(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    x = torch.linspace(-1, 1, 64).reshape(-1, 1)
    for epoch in range(50):
        loss = torch.nn.functional.mse_loss(model(x), 3 * x + 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rtrain.train.report({"epoch": epoch, "loss": loss.item()})


result = TorchTrainer(train_loop, scaling_config=ScalingConfig(num_workers=2)).fit()
print(result.metrics)
