"""The images, and a ResNet-18 for them, for the three parts of the tutorial."""

import torch
from sklearn.datasets import load_digits
from torch import nn

TEST_IMAGES = 360


def images() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the digits of scikit-learn as images of 1 x 8 x 8 in [0, 1], shuffled once. The last 360 are for the test."""
    pixels, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    pixels = torch.tensor(pixels / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)[order]
    return pixels, torch.tensor(labels)[order]


class Block(nn.Module):
    """Two convolutions with a shortcut around them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(),
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(pixels) + self.shortcut(pixels))


def resnet18(width: int = 64, classes: int = 10) -> nn.Module:
    """Returns a ResNet-18 for small grey images: four stages of two blocks, and a first convolution that keeps the size."""
    stages = [Block(width, width, 1), Block(width, width, 1)]
    for stage in (2, 4, 8):
        stages += [Block(width * stage // 2, width * stage, 2), Block(width * stage, width * stage, 1)]
    first: list[nn.Module] = [nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*first, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, classes))


def accuracy(model: nn.Module, pixels: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the share of `pixels` that the model classifies correctly."""
    model.eval()
    with torch.no_grad():
        right = float((model(pixels).argmax(1) == labels).float().mean())
    model.train()
    return right
