"""A driver of two workers, the same for rtrain and for Ray. Measures the time to the first report, the cost of a report, and
how long a checkpoint blocks. Prints one JSON line. usage: api_driver.py rtrain|ray first|report|checkpoint FOLDER [COUNT]
"""

import json
import sys
import time

LIBRARY, WHAT, FOLDER = sys.argv[1:4]
COUNT = int(sys.argv[4]) if len(sys.argv) > 4 else 0
TOLD = f"{FOLDER}/{LIBRARY}-{WHAT}.json"


def first(config):
    import torch

    ones = torch.ones(1)
    torch.distributed.all_reduce(ones)
    config["train"].report({"sum": float(ones)})
    tell(config, {"at": time.time()})


def report(config):
    import statistics

    train = config["train"]
    train.report({"number": -1})
    micros = []
    for number in range(config["count"]):
        begin = time.perf_counter()
        train.report({"number": number})
        micros.append((time.perf_counter() - begin) * 1e6)
    tell(config, {"p50_us": statistics.median(micros), "mean_us": statistics.mean(micros)})


def checkpoint(config):
    """Times two operations on a directory of 100 MB in alternating order: a plain copy, and a report by rank 0. Before each,
    the source is on disk and in memory, no writes are pending, and the target does not exist.
    """
    import os
    import pathlib
    import shutil
    import statistics
    import tempfile

    train = config["train"]
    rank = train.get_context().get_world_rank()
    times = {"copy": [], "report": []}
    for number in range(config["count"]):
        with tempfile.TemporaryDirectory(dir=config["folder"]) as folder:
            source = pathlib.Path(folder) / "checkpoint"
            source.mkdir()
            for part in range(4 if rank == 0 else 0):
                (source / f"part-{part}").write_bytes(os.urandom(25 << 20))
            given = train.Checkpoint.from_directory(str(source)) if rank == 0 else None
            for what in ("copy", "report") if number % 2 else ("report", "copy"):
                getattr(train, "flush", lambda: None)()  # waits until the previous checkpoint is committed
                os.sync()
                train.report({"number": number})
                begin = time.perf_counter()
                if what == "report":
                    train.report({"number": number}, checkpoint=given)
                elif rank == 0:
                    shutil.copytree(source, pathlib.Path(folder) / "copy")
                times[what].append((time.perf_counter() - begin) * 1e3)
    # The minimum of each: a virtual machine gets its pages from the host, and one copy took 27 to 400 ms on a quiet machine.
    tell(
        config,
        {
            "copy_ms": min(times["copy"]),
            "blocked_ms": min(times["report"]),
            "copy_median_ms": statistics.median(times["copy"]),
            "blocked_median_ms": statistics.median(times["report"]),
        },
    )


def tell(config, figures):
    """Writes rank 0's figures to a file, since Ray keeps no metrics of a report without a checkpoint."""
    if config["train"].get_context().get_world_rank() == 0:
        with open(config["told"], "w") as file:
            json.dump(figures, file)


def loop(config):
    if config["library"] == "ray":
        from ray import train
    else:
        from rtrain import train
    {"first": first, "report": report, "checkpoint": checkpoint}[config["what"]]({**config, "train": train})


def trainer():
    if LIBRARY == "ray":
        import ray
        from ray.train import CheckpointConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchTrainer

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    else:
        import rtrain
        from rtrain.train import CheckpointConfig, RunConfig, ScalingConfig
        from rtrain.train.torch import TorchTrainer

        rtrain.init("auto")
    config = {"library": LIBRARY, "what": WHAT, "folder": FOLDER, "count": COUNT, "told": TOLD}
    kept = RunConfig(storage_path=f"{FOLDER}/runs", checkpoint_config=CheckpointConfig(num_to_keep=1))
    return TorchTrainer(
        loop,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
        run_config=kept,
    )


if __name__ == "__main__":
    made = trainer()
    begin = time.time()
    made.fit()
    with open(TOLD) as file:
        metrics = json.load(file)
    if WHAT == "first":
        metrics = {"seconds": metrics["at"] - begin}
    print("measured " + json.dumps(metrics), flush=True)
