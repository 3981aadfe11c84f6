"""Trains a GPT that is sharded over the workers (FSDP2), from streamed Parquet files. The run survives the death of a
worker.

python train.py [--config tiny.json] [--workers 2] [--steps 60] [--save-every 20] [--fail-at STEP] [--name NAME] [--data DIR]
    [--storage DIR]
"""

import argparse
import json
import os
import pathlib
import signal
import sysconfig
from typing import Any

import numpy
import pyarrow as pa
import rtrain.data
import rtrain.train
import torch
from gpt import GPT, Block, Config
from pyarrow import parquet
from rtrain.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from rtrain.train.torch import TorchTrainer, prepare_model
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards
from torch.nn import functional

HERE = pathlib.Path(__file__).resolve().parent
FILES, FILE_BYTES = 4, 512 << 10


def write_data(folder: pathlib.Path, length: int) -> None:
    """Writes Parquet files of byte sequences from the source of Python's standard library. The folder appears once all files
    are written.
    """
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    aside.mkdir(parents=True, exist_ok=True)
    source = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = b"".join(path.read_bytes() for path in source)[: FILES * FILE_BYTES]
    rows = numpy.frombuffer(text[: len(text) // length * length], dtype=numpy.uint8).reshape(-1, length)
    for number, part in enumerate(numpy.array_split(rows, FILES)):
        table = pa.table({"bytes": pa.FixedSizeListArray.from_arrays(pa.array(part.reshape(-1)), length)})
        parquet.write_table(table, aside / f"part-{number}.parquet", row_group_size=256)
    aside.rename(folder)


def resume(model: Any, optimizer: torch.optim.Optimizer) -> tuple[int, dict[str, Any] | None]:
    """Loads the newest checkpoint. Returns its number of steps and its position in the data."""
    checkpoint = rtrain.train.get_checkpoint()
    if checkpoint is None:
        return 0, None
    with checkpoint.as_directory() as folder:
        weights, moments = get_state_dict(model, optimizer)
        state: dict[str, Any] = {"model": weights, "optimizer": moments}
        load_shards(state, checkpoint_id=folder)  # each rank reads its shards, even if the number of ranks has changed
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        progress = json.loads((pathlib.Path(folder) / "progress.json").read_text())
    print(f"goes on after step {progress['step']}", flush=True)
    return int(progress["step"]), progress["data"]


def save(model: Any, optimizer: torch.optim.Optimizer, metrics: dict[str, Any], position: dict[str, Any]) -> None:
    """Saves a checkpoint. Each rank writes its own shards; the files of all ranks form one checkpoint."""
    weights, moments = get_state_dict(model, optimizer)
    with rtrain.train.checkpoint_dir() as folder:
        save_shards({"model": weights, "optimizer": moments}, checkpoint_id=folder)
        if rtrain.train.get_context().get_world_rank() == 0:
            (pathlib.Path(folder) / "progress.json").write_text(json.dumps({"step": metrics["step"], "data": position}))
        rtrain.train.report(metrics, checkpoint=rtrain.train.Checkpoint.from_directory(folder))


def die_once(step: int, fail_at: int) -> None:
    """Imitates a machine's failure: in the first attempt, the last rank exits after that step."""
    context = rtrain.train.get_context()
    last = context.get_world_rank() == context.get_world_size() - 1
    if step == fail_at and last and context.get_attempt() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def train_loop(settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    config = Config(**settings["config"])
    model = prepare_model(GPT(config), parallel_strategy="fsdp2", parallel_strategy_kwargs={"modules": Block})
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate)
    step, position = resume(model, optimizer)
    shard = rtrain.train.get_dataset_shard("train", state_dict=position)
    while step < settings["steps"]:
        for batch in shard.iter_torch_batches(batch_size=config.batch, drop_last=True):
            tokens = batch["bytes"].long()
            logits = model(tokens[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            metrics = {"step": step, "loss": loss.item(), "attempt": rtrain.train.get_context().get_attempt()}
            if step % settings["save_every"] == 0:
                save(model, optimizer, metrics, shard.state_dict())
            elif step % 10 == 0:
                rtrain.train.report(metrics)
            die_once(step, settings["fail_at"])
            if step == settings["steps"]:
                break


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--config", type=pathlib.Path, default=HERE / "tiny.json")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--steps", type=int, default=60)
    options.add_argument("--save-every", type=int, default=20)
    options.add_argument("--fail-at", type=int, default=0, help="a worker dies after this step, once; 0: none does")
    options.add_argument("--name", help="of the run; an earlier run of this name goes on; none: a new run")
    options.add_argument("--data", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "rtrain-llm")
    options.add_argument("--storage", type=lambda text: str(pathlib.Path(text).absolute()), default=None)
    given = options.parse_args()
    config = Config.read(given.config)
    data = given.data.absolute() / f"bytes-{config.context + 1}"
    if not data.exists():
        write_data(data, config.context + 1)
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={
            "config": vars(config),
            "steps": given.steps,
            "save_every": given.save_every,
            "fail_at": given.fail_at,
        },
        datasets={"train": rtrain.data.read_parquet(str(data)).random_shuffle(seed=0)},
        scaling_config=ScalingConfig(num_workers=given.workers, use_gpu=torch.cuda.is_available()),
        run_config=RunConfig(
            name=given.name,
            storage_path=given.storage,
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    metrics = trainer.fit().metrics or {}
    print(f"loss {metrics['loss']:.3f} after {metrics['step']} steps, in attempt {metrics['attempt']}")


if __name__ == "__main__":
    main()
