"""Workers with GPUs that are forked from a template, which has imported torch and has never asked for a GPU."""

import pathlib
import sys

from benchmarks.first_step import first_steps
from local_cluster import wait_for

from gpu_check.checks import devices, speed
from gpu_check.cluster import GpuCluster
from gpu_check.rows import Skip, Wrong

ROUNDS = 3
MOST = 0.8  # maximum, relative to torchrun; both include the start of CUDA and NCCL
_READY, _NONE = "a template of warm workers is ready", "no template of warm workers: "
_FORKED = "forked from a warm template"


def check(rows, options):
    cluster = GpuCluster(pathlib.Path(options.work) / "cluster", warm=True)
    rounds = 1 if options.on_cpu else ROUNDS
    how = f"at most {MOST:g} x torchrun, {f'median of {rounds}' if rounds > 1 else 'once'}"
    try:
        cluster.be_driver()
        # The first row, as no other template or standby is being made.
        with rows.row("first step, 1 forked worker", how) as seen:
            first_step(cluster, rounds, options, seen)
        with rows.row("a forked worker's GPU", "it computes on the GPU that its agent gave it") as seen:
            own_gpu(cluster, options, seen)
        with rows.row("torch.compile in a forked worker", "its kernel's values are eager PyTorch's, within 1e-5") as seen:
            compiled(cluster, options, seen)
        with rows.row("recovery with a forked worker", how) as seen:
            recovery(cluster, rounds, options, seen)
        with rows.row(
            "a module that looks for GPUs when it is imported", "no template has it: its workers start plainly"
        ) as seen:
            looks_for_gpus(cluster, options, seen)
    finally:
        cluster.stop()


def refusals(cluster):
    """Returns the reasons why the node could make no template."""
    lines = (cluster.folder / "node-1.log").read_text().splitlines()
    return [line.partition(_NONE)[2] for line in lines if _NONE in line]


def templates(cluster):
    """Returns the number of templates that the node has made. Raises Wrong, with the reason, if it could not make one."""
    if why := refusals(cluster):
        raise Wrong(why[0])
    return (cluster.folder / "node-1.log").read_text().count(_READY)


def starts(cluster, run):
    """Returns the node's texts about the starts of each attempt."""
    return [event["text"] for event in cluster.json("events", "--run", run)["items"] if event["kind"] == "WorkerStarts"]


def expect_fork(cluster, run):
    texts = starts(cluster, run)
    if not texts or not all(text.endswith(_FORKED) for text in texts):
        raise Wrong(f"{run}: {'; '.join(texts) or 'nothing is said of its starts'}")


def own_gpu(cluster, options, seen):
    before = templates(cluster)
    devices.seen_by(cluster, "plain", 1, 1)
    wait_for("a template", lambda: templates(cluster) > before, 120)
    sights, given = devices.seen_by(cluster, "forked", 1, 1)
    seen.append(f"{sights[0]['visible']} visible, {devices.brief(sights[0]['uuids'])}")
    devices.judge(sights, given, options)
    expect_fork(cluster, "forked")


def compiled(cluster, options, seen):
    if options.on_cpu:
        raise Skip("needs a GPU: on the CPU torch.compile makes no kernel of Triton's")
    cluster.submit("compiled", "compiles.py")
    result = cluster.results("compiled")[0]
    seen.append(f"within {result['difference']:.1e} on {result['device']}, {result['kernels']} kernels of Triton's")
    expect_fork(cluster, "compiled")
    if result["device"] != options.device or result["difference"] > 1e-5 or result["kernels"] == 0:
        raise Wrong("its values are others, or it was not compiled")


def first_step(cluster, rounds, options, seen):
    """Measures the first step. The jobs of these rounds have no variables, so they have another environment and another
    template.
    """
    before = templates(cluster)
    first_steps(cluster, cluster.facts, sys.executable, 1, 1, gpus=1, prefix="plain-step")
    wait_for("a template", lambda: templates(cluster) > before, 120)
    ours, theirs = first_steps(cluster, cluster.facts, sys.executable, 1, rounds, gpus=1)
    speed.judge(ours, theirs, options, seen, MOST)
    for number in range(rounds):
        expect_fork(cluster, f"step-{number}")


def recovery(cluster, rounds, options, seen):
    pairs = [
        (speed.recovery(cluster, round_number, 1, options), speed.recovery_of_torchrun(cluster, round_number, 1))
        for round_number in range(rounds)
    ]
    speed.judge([pair[0] for pair in pairs], [pair[1] for pair in pairs], options, seen, MOST)
    for number in range(rounds):
        expect_fork(cluster, f"recovers-{number}")


def looks_for_gpus(cluster, options, seen):
    """Checks that a module which looks for GPUs at its import refuses a template, which sees no GPU: a forked worker would
    keep that result.
    """
    if options.on_cpu:
        raise Skip("needs a GPU: without its driver a module finds none anywhere")
    for module in ("counts_gpus", "requests_gpus"):
        known = len(refusals(cluster))
        looked(cluster, f"{module.replace('_', '-')}-first", module)
        wait_for("the reason of the template", lambda before=known: len(refusals(cluster)) > before, 120)
        result = looked(cluster, f"{module.replace('_', '-')}-next", module)
        why = refusals(cluster)[-1]
        seen.append(f"{module}: it finds {result['found']}, and {why}")
        if not any(words in why for words in ("threads", "have counted the GPUs")):
            raise Wrong(f"{module}: the template was refused for something else: {why}")
        if result["found"] != 1:
            raise Wrong(f"{module} finds {result['found']} GPUs in a worker that has one")


def looked(cluster, run, module):
    cluster.submit(run, "looks_by_module.py", module, python={"preload": [module]})
    result = cluster.results(run)[0]
    if any(_FORKED in text for text in starts(cluster, run)):
        raise Wrong(f"{run} was forked")
    return result
