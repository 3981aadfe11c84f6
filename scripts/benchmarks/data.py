"""Measures rtrain.data: a row function beside a plain loop, functions in processes beside the same in threads, and JPEGs beside
PyTorch's DataLoader with as many processes.

usage: .venv/bin/python scripts/benchmarks/data.py [--threads 1,2] [--images 12000] [--seconds 300] [--source] [--holding]
With a CUDA device a small convolutional model takes each batch, so that the share of waiting is measured. `--source` imports
rtrain from this tree instead of the installed package.
"""

import argparse
import io
import os
import pathlib
import sys
import tempfile
import time

import numpy as np

BATCH = 128
SIZE = 320
CUT = 224
FILES = 24


def first(row):
    return {"id": row["id"] + 1, "half": row["id"] * 0.5}


def decoded(row):
    """Decodes, crops, flips and normalises one image, as a training loop for images does."""
    from PIL import Image

    with Image.open(io.BytesIO(row["jpeg"])) as image:
        image = image.convert("RGB").resize((CUT, CUT), Image.Resampling.BILINEAR, box=(16, 16, 304, 304))
    pixels = np.asarray(image, dtype=np.float32)
    if row["label"] % 2:
        pixels = pixels[:, ::-1]
    return {"image": np.ascontiguousarray(((pixels - 120) / 58).transpose(2, 0, 1)), "label": row["label"]}


def holding(row):
    """Computes for about 0.4 ms and holds the interpreter."""
    total = 0
    for number in range(6000):
        total += number * number % 7
    return {"id": row["id"], "total": total}


def copied(batch):
    """Gains nothing anywhere: moving the batch takes longer than making it."""
    return {"image": batch["image"] + 1}


class Images:
    """A torch Dataset of the same rows in memory."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        image = decoded(self.rows[place])
        return image["image"], image["label"]


def write_images(folder, count):
    """Writes Parquet files of JPEGs. A few different images suffice to measure the decoder."""
    import pyarrow as pa
    from PIL import Image
    from pyarrow import parquet

    random = np.random.default_rng(1)
    jpegs = []
    for _ in range(32):
        small = random.integers(0, 255, (40, 40, 3), dtype=np.uint8)
        content = io.BytesIO()
        Image.fromarray(small).resize((SIZE, SIZE), Image.Resampling.BICUBIC).save(content, "JPEG", quality=90)
        jpegs.append(content.getvalue())
    each = max(1, count // FILES)
    for number in range(FILES):
        rows = {"jpeg": [jpegs[place % 32] for place in range(each)], "label": list(range(each))}
        parquet.write_table(pa.table(rows), folder / f"{number:02}.parquet")


def model_of(torch):
    """Returns a function of a batch: a step of a small model on the GPU; without a GPU it does nothing."""
    if not torch.cuda.is_available():
        return lambda _images: None
    layers = [torch.nn.Conv2d(3, 64, 7, 2), torch.nn.ReLU(), torch.nn.Conv2d(64, 128, 3, 2), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step(images):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(images.cuda(non_blocking=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()

    return step


def epoch(name, batches, step, until):
    """Prints images a second of one epoch, behind its first batch, and the share of the time that the loop waited."""
    begun = now = time.perf_counter()
    images = 0
    waited = took_first = 0.0
    for batch in batches:
        there = time.perf_counter()
        if images:
            waited += there - now
        else:
            took_first, begun = there - begun, there
        step(batch)
        images += len(batch)
        now = time.perf_counter()
        if now > until:
            break
    spent = max(1e-9, now - begun)
    print(
        f"{name:34} {(images - BATCH) / spent:8.0f} images/s, waits {waited / spent:4.0%}, first batch {took_first:5.2f} s, "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def rows(data, count=1_000_000):
    dataset = data.range(count).map(first)
    plain, ours = [], []
    for _ in range(3):
        begun = time.perf_counter()
        listed = [first({"id": number}) for number in range(count)]
        plain.append(time.perf_counter() - begun)
        del listed
        begun = time.perf_counter()
        for _batch in dataset.iter_batches(batch_size=4096):
            pass
        ours.append(time.perf_counter() - begun)
    print(
        f"map of {count} rows: {count / min(ours):.0f} rows/s, a plain loop {count / min(plain):.0f}, "
        f"{min(ours) / min(plain):.2f} x its time (least of 3), load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def epoch_s(dataset, processes, data):
    """Returns the seconds of an epoch, and of its first batch."""
    data.DataContext.get_current().processes = processes
    begun = time.perf_counter()
    first_s = 0.0
    for _batch in dataset.iter_batches(batch_size=256):
        first_s = first_s or time.perf_counter() - begun
    return time.perf_counter() - begun, first_s


def beside(data, name, make, choices, rounds=3):
    """Prints the second epochs of a dataset with each choice of processes, interleaved, and their ratio to the first choice."""
    taken = {choice: [] for choice in choices}
    firsts = {choice: [] for choice in choices}
    datasets = {choice: make() for choice in choices}
    for choice, dataset in datasets.items():  # the first epoch starts the processes
        firsts[choice].append(epoch_s(dataset, choice, data)[1])
    for _ in range(rounds):
        for choice, dataset in datasets.items():
            taken[choice].append(epoch_s(dataset, choice, data)[0])
    none = np.array(taken[choices[0]])
    for choice in choices:
        ratio = np.median(none / np.array(taken[choice]))
        print(
            f"{name:34} processes {choice!s:5} {np.median(taken[choice]):6.2f} s (least {min(taken[choice]):6.2f}), "
            f"{ratio:5.2f} x the rate of none, first batch {firsts[choice][0]:5.2f} s, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


def in_processes(data):
    """Functions that hold the interpreter, and functions that gain nowhere, with and without processes."""
    with tempfile.TemporaryDirectory() as folder:
        data.range(4_000).write_parquet(folder, row_group_size=100)
        beside(data, "map that holds the interpreter", lambda: data.read_parquet(folder).map(holding), [0, None, 2])
        images = np.zeros((64, 64, 3), np.uint8)
        rows = data.range(20_000).map_batches(
            lambda batch: {"image": np.repeat(images[None], len(batch["id"]), 0)}, batch_size=256
        )
        held = rows.materialize()
        beside(data, "map_batches that copies", lambda: held.map_batches(copied, batch_size=256), [0, None])
        small = data.range(1_000_000)
        beside(data, "map of small rows", lambda: small.map(first), [0, None, 2])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default="1,2", help="threads and loader processes to measure; 0: as rtrain chooses")
    parser.add_argument("--images", type=int, default=12000)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--source", action="store_true")
    parser.add_argument("--holding", action="store_true", help="only functions in processes, beside the same in threads")
    options = parser.parse_args()
    if options.source:
        sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "runtime" / "python"))
    import torch
    from rtrain import data

    if options.holding:
        in_processes(data)
        return
    step = model_of(torch)
    print(f"{len(os.sched_getaffinity(0))} CPUs, {torch.cuda.get_device_name() if torch.cuda.is_available() else 'no GPU'}")
    rows(data)
    counts = [int(count) for count in options.threads.split(",")]
    each = options.seconds / (6 * len(counts))  # for two epochs of each of the three readers
    with tempfile.TemporaryDirectory() as folder:
        write_images(pathlib.Path(folder), options.images)
        source = data.read_parquet(folder)
        held = source.take_all()
        for count in counts:
            threads = source.map(decoded, concurrency=count or None)
            processes = source.map(decoded)
            loader = torch.utils.data.DataLoader(Images(held), BATCH, num_workers=count, persistent_workers=count > 0)
            for number in range(2):
                for kind, dataset in (("threads", threads), ("processes", processes)):
                    data.DataContext.get_current().processes = None if not count else count if kind == "processes" else 0
                    ours = (batch["image"] for batch in dataset.iter_torch_batches(batch_size=BATCH))
                    name = f"rtrain.data, {count} {kind}" if count else "rtrain.data as it chooses"
                    epoch(f"{name}, epoch {number}", ours, step, time.perf_counter() + each)
                if count:
                    theirs = (images for images, _ in loader)
                    epoch(f"DataLoader, {count} processes, epoch {number}", theirs, step, time.perf_counter() + each)
            del loader


if __name__ == "__main__":
    main()
