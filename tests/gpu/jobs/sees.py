"""Reports the devices that this worker sees, and that it can compute on its own device. Runs until the check has queried the
head about it.
"""

import os

import torch
from rtrain.train.torch import get_device
from worker_devices import assigned, uuids, visible_count
from worker_facts import tell, wait_for_word

device = get_device()
square = torch.full((64, 64), 2.0, device=device)
tell(
    "result",
    device=device.type,
    uuids=uuids(),
    assigned=assigned(),
    visible=visible_count(),
    variable=os.environ.get("CUDA_VISIBLE_DEVICES"),
    product=float((square @ square).sum()),
)
wait_for_word("enough")
