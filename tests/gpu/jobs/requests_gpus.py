"""A module that asks for a GPU when it is imported, as many do to choose a device."""

import torch

FOUND = int(torch.cuda.is_available())
