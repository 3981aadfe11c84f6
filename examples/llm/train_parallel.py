"""Trains the GPT on a mesh: tensor parallel (TP) within a node, sharded (FSDP2) across. Checkpoints are written behind the
loop, and a run goes on with another mesh.

python train_parallel.py [--dp 2] [--tp 2] [--steps 20] [--save-every 10] [--name NAME] [--storage DIR]
"""

import argparse
import contextlib
import pathlib
import sysconfig
from typing import Any

import rtrain.train
import torch
import torch.distributed as dist
from gpt import GPT, Block, Config
from rtrain.train import RunConfig, ScalingConfig
from rtrain.train.torch import TorchConfig, TorchTrainer, device_mesh, get_device, prepare_model
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

HERE = pathlib.Path(__file__).resolve().parent
GLOBAL_BATCH = 8


class Saver:
    """Writes checkpoints while the next steps train. Each rank writes its own files, straight into its checkpoint directory."""

    def __init__(self) -> None:
        self.group: Any = dist.new_group(backend="gloo")  # DCP's thread must not use the loop's group
        self.pending: tuple[Any, contextlib.ExitStack, str, dict[str, Any]] | None = None

    def begin(self, state: dict[str, Any], metrics: dict[str, Any]) -> None:
        """Returns when the state is copied. The loop may change the weights then."""
        self.finish()
        stack = contextlib.ExitStack()
        folder = stack.enter_context(rtrain.train.checkpoint_dir())
        self.pending = async_save(state, checkpoint_id=folder, process_group=self.group), stack, folder, metrics

    def finish(self) -> None:
        """Waits until the files are written, and reports them. Every rank calls it at the same step."""
        if self.pending is not None:
            future, stack, folder, metrics = self.pending
            self.pending = None
            with stack:
                future.result()
                rtrain.train.report(metrics, checkpoint=rtrain.train.Checkpoint.from_directory(folder))


def train_loop(settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    config = Config(**settings["config"])
    mesh = device_mesh({"dp": settings["dp"], "tp": settings["tp"]})
    plan = {"qkv": ColwiseParallel(), "out": RowwiseParallel(), "mlp.0": ColwiseParallel(), "mlp.2": RowwiseParallel()}
    model = GPT(config).to(get_device())
    for block in model.blocks:
        parallelize_module(block, mesh["tp"], plan)
    model = prepare_model(model, parallel_strategy="fsdp2", parallel_strategy_kwargs={"mesh": mesh["dp"], "modules": Block})
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, foreach=False)  # foreach: one mesh for all weights
    step = 0
    if checkpoint := rtrain.train.get_checkpoint():
        weights, moments = get_state_dict(model, optimizer)
        state: dict[str, Any] = {"model": weights, "optimizer": moments}
        with checkpoint.as_directory() as folder:
            load_shards(state, checkpoint_id=folder)  # each rank reads its parts of this mesh
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        step = checkpoint.metrics["step"]
        print(f"goes on after step {step} on {dict(zip(mesh.mesh_dim_names or (), mesh.shape, strict=True))}", flush=True)
    text = (pathlib.Path(sysconfig.get_path("stdlib")) / "argparse.py").read_bytes()
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    saver = Saver()
    while step < settings["steps"]:
        # All ranks draw the same global batch, whatever the mesh. The ranks of a `tp` axis take the same rows of it.
        starts = torch.randint(len(data) - config.context - 1, (GLOBAL_BATCH,), generator=torch.Generator().manual_seed(step))
        own_starts = starts.chunk(mesh["dp"].size())[mesh.get_local_rank("dp")]
        tokens = torch.stack([data[start : start + config.context + 1] for start in own_starts.tolist()]).long().to(get_device())
        loss = functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        dist.all_reduce(loss := loss.detach())
        metrics = {"step": step, "loss": loss.item() / mesh.size()}
        if step % settings["save_every"] == 0 or step == settings["steps"]:
            weights, moments = get_state_dict(model, optimizer)
            saver.begin({"model": weights, "optimizer": moments}, metrics)
    saver.finish()


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--config", type=pathlib.Path, default=HERE / "tiny.json")
    options.add_argument("--dp", type=int, default=2, help="ranks among which weights and batches are divided")
    options.add_argument("--tp", type=int, default=2, help="ranks among which each layer is divided, all on one node")
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--save-every", type=int, default=10)
    options.add_argument("--name", help="of the run; an earlier run of this name goes on, also with another --dp and --tp")
    options.add_argument("--storage", type=lambda text: str(pathlib.Path(text).absolute()), default=None)
    given = options.parse_args()
    on_gpus = torch.cuda.is_available()
    settings = {
        "config": vars(Config.read(given.config)),
        **{name: getattr(given, name) for name in ("dp", "tp", "steps", "save_every")},
    }
    trainer = TorchTrainer(
        train_loop,
        train_loop_config=settings,
        torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if on_gpus else "gloo"),  # gloo carries DCP's plans
        scaling_config=ScalingConfig(num_workers=given.dp * given.tp, use_gpu=on_gpus),
        run_config=RunConfig(name=given.name, storage_path=given.storage),
    )
    metrics = trainer.fit().metrics or {}
    print(f"loss {metrics['loss']:.6f} after {metrics['step']} steps")


if __name__ == "__main__":
    main()
