"""Compares DDP, FSDP and FSDP2 with one process without sharding: the losses at every step and the final weights must be
equal.
"""

import pathlib

from gpu_check.cluster import GpuCluster
from gpu_check.rows import Skip, Wrong

STEPS = 12
CLOSE = 1e-9  # in float64, where only the order of sums differs
NAMES = {"ddp": "DDP", "fsdp": "FSDP", "fsdp2": "FSDP2"}
EXPECTED = f"losses and weights as in one process, within {CLOSE:g}"
_NO_CPU = "needs a GPU: torch's FullyShardedDataParallel does not train on the CPU"


def check(rows, options):
    cluster = GpuCluster(pathlib.Path(options.work) / "cluster")
    try:
        gpus = cluster.json("nodes")["items"][0]["gpus"]
        strategies = [name for name in NAMES if not (options.on_cpu and name == "fsdp")]
        plain = alone(rows, cluster, strategies, options)
        together(rows, cluster, strategies, gpus, plain, options)
        with rows.row("DDP, 2 workers on halves of one GPU, Gloo", EXPECTED) as seen:
            on_halves(cluster, plain, options, seen)
    finally:
        cluster.stop()


def alone(rows, cluster, strategies, options):
    """Makes the rows of one worker. Returns (losses, weights) of the run without sharding; None if it failed."""
    plain = None
    with rows.row("one process, not sharded", "the loss falls") as seen:
        cluster.submit("alone", "sharded.py", STEPS, "none", *strategies)
        losses, weights, _ = trained(cluster, "alone", "none", options.device, options.backend)
        plain = losses, weights
        seen.append(f"loss {losses[0]:.4f} to {losses[-1]:.4f} on {options.device}")
        if not losses[-1] < losses[0]:
            raise Wrong("it does not fall")
    compare_each(rows, cluster, "alone", 1, strategies, plain, options)
    return plain


def together(rows, cluster, strategies, gpus, plain, options):
    """Makes the rows of one worker for each GPU. The number of workers must divide a batch."""
    workers = max((size for size in (2, 3, 4, 6, 8) if size <= gpus), default=None)
    if workers is not None:
        cluster.submit("together", "sharded.py", STEPS, *strategies, workers=workers)
    compare_each(rows, cluster, "together", workers, strategies, plain, options)


def compare_each(rows, cluster, run, workers, strategies, plain, options):
    for strategy, name in NAMES.items():
        with rows.row(f"{name}, {workers or 2} worker{'' if workers == 1 else 's'}", EXPECTED) as seen:
            if workers is None:
                raise Skip("needs 2 GPUs")
            if strategy not in strategies:
                raise Skip(_NO_CPU)
            compare(trained(cluster, run, strategy, options.device, options.backend), strategy, plain, seen)


def trained(cluster, run, strategy, device, backend):
    """Returns (losses, weights, facts) of that strategy. Raises Wrong if it used another device or backend."""
    import torch

    facts = cluster.fact(run, strategy)
    if "error" in facts:
        raise Wrong(facts["error"])
    if (facts["device"], facts["backend"]) != (device, backend):
        raise Wrong(f"it trained on {facts['device']} by {facts['backend']}")
    return facts["losses"], torch.load(cluster.facts / f"{run}-{strategy}.pt", weights_only=True), facts


def compare(result, strategy, plain, seen):
    if plain is None:
        raise Skip("needs the row of one process")
    losses, weights, facts = result
    if set(weights) != set(plain[1]):
        raise Wrong(f"its weights are called {sorted(weights)}")
    loss = max(abs(a - b) for a, b in zip(losses, plain[0], strict=True))
    weight = max(float((weights[name] - plain[1][name]).abs().max()) for name in weights)
    seen.append(f"{facts['kind']}, {facts['sharded']} sharded parameters, losses within {loss:.1e}, weights within {weight:.1e}")
    if not (loss <= CLOSE and weight <= CLOSE):
        raise Wrong("it trains something else")
    if strategy.startswith("fsdp") and facts["sharded"] == 0:
        raise Wrong("nothing was sharded")


def on_halves(cluster, plain, options, seen):
    """Checks two workers on halves of one GPU. They use Gloo, since NCCL refuses two ranks on one GPU."""
    cluster.submit("halves", "sharded.py", STEPS, "ddp", workers=2, gpus=0.5, backend={"name": "gloo"})
    compare(trained(cluster, "halves", "ddp", options.device, "gloo"), "ddp", plain, seen)
