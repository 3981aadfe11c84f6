"""Reads rows of a dataset as batches on the device, through page-locked memory and asynchronous copies."""

import rtrain.data
import torch
from rtrain.train.torch import get_device
from worker_facts import tell

ROWS, BATCH = 200_000, 1024

device = get_device()
square = torch.randn(512, 512, device=device)
shard = rtrain.data.range(ROWS).iterator()
rows = batches = wrong = 0
where = ""
for batch in shard.iter_torch_batches(batch_size=BATCH, device=device, pin_memory=device.type == "cuda"):
    for _ in range(4):
        square @ square
    ids = batch["id"]
    wrong += int((ids != torch.arange(rows, rows + len(ids), device=device)).sum())
    rows += len(ids)
    batches += 1
    where = ids.device.type
tell("result", rows=rows, wanted=ROWS, batches=batches, wrong=wrong, device=where)
