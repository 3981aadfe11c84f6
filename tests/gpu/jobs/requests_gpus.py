"""Calls CUDA at its import, as many modules do to choose a device."""

import torch

FOUND = int(torch.cuda.is_available())
