"""A module that counts the GPUs when it is imported."""

import torch

FOUND = torch.cuda.device_count()
