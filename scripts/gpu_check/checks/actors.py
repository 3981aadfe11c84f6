"""Checks actors and remote functions with GPUs: where they compute, where their values arrive, and which memory is free
after `kill`.
"""

import importlib.util
import pathlib

from gpu_check import nvml
from gpu_check.checks.memory import TOLERANCE, taken
from gpu_check.cluster import GpuCluster
from gpu_check.rows import Skip, Wrong

_MIB = 1 << 20
_WITHIN_S = 180


def check(rows, options):
    cluster = GpuCluster(pathlib.Path(options.work) / "cluster")
    try:
        cluster.be_driver()
        with rows.row("an actor with a GPU", f"computes on {options.device}, its values arrive on the CPU") as seen:
            one_actor(options, seen)
        with rows.row("a function with a GPU", "its value arrives on the CPU") as seen:
            function(seen)
        with rows.row("two actors on halves of a GPU", "both are on the GPU that their agent gave them") as seen:
            halves(seen)
        with rows.row("kill of an actor", "when it returns its GPU memory is free") as seen:
            kill(seen)
    finally:
        shut_down()
        cluster.stop()


def the_package():
    """Imports rtrain with its actors. Raises Skip if a required package is missing."""
    if importlib.util.find_spec("cloudpickle") is None:
        raise Skip("needs the Python package cloudpickle")
    import rtrain

    rtrain.init(ignore_reinit_error=True)
    return rtrain


def shut_down():
    import rtrain

    rtrain.shutdown()


def one_actor(options, seen):
    rtrain = the_package()
    import gpu_actor

    actor = rtrain.remote(num_gpus=1)(gpu_actor.Holder).remote(1 << 20)
    product, device = rtrain.get(actor.product.remote(64), timeout=_WITHIN_S)
    uuids, given = rtrain.get([actor.uuids.remote(), actor.assigned.remote()], timeout=_WITHIN_S)
    rtrain.kill(actor)
    seen.append(f"computes on {device} ({uuids[0]}), value on {product.device}")
    if device != options.device or uuids != given or len(uuids) != 1:
        raise Wrong(f"it sees {uuids}, its agent gave {given}")
    if product.device.type != "cpu" or float(product.sum()) != 64 * 64 * 256.0:
        raise Wrong(f"its value is {float(product.sum())} on {product.device}")


def function(seen):
    rtrain = the_package()
    import gpu_actor
    import torch

    value = rtrain.get(rtrain.remote(num_gpus=1)(gpu_actor.doubled).remote(torch.arange(1000.0)), timeout=_WITHIN_S)
    seen.append(f"value on {value.device}, sum {float(value.sum()):g}")
    if value.device.type != "cpu" or float(value.sum()) != 999_000.0:
        raise Wrong("it should be 999000 on the CPU")


def halves(seen):
    rtrain = the_package()
    import gpu_actor

    half = rtrain.remote(num_gpus=0.5)(gpu_actor.Holder)
    actors = [half.remote(1 << 20) for _ in range(2)]
    answers = rtrain.get(
        [call for actor in actors for call in (actor.uuids.remote(), actor.assigned.remote())], timeout=_WITHIN_S
    )
    for actor in actors:
        rtrain.kill(actor)
    seen.append(", ".join(uuids[0] for uuids in answers[::2] if uuids))
    if answers[::2] != answers[1::2] or any(len(uuids) != 1 for uuids in answers):
        raise Wrong(f"their agent gave them {answers[1::2]}")


def kill(seen):
    rtrain = the_package()
    import gpu_actor

    count = taken()
    before = {gpu.uuid: gpu.memory_used for gpu in nvml.gpus()}
    actor = rtrain.remote(num_gpus=1)(gpu_actor.Holder).remote(count)
    uuid = rtrain.get(actor.uuids.remote(), timeout=_WITHIN_S)[0]
    held = nvml.memory_used(uuid)
    rtrain.kill(actor)
    after = nvml.memory_used(uuid)
    seen.append(f"before {before[uuid] // _MIB} MiB, held {held // _MIB}, after {after // _MIB}")
    if held < before[uuid] + count:
        raise Wrong(f"it took {count // _MIB} MiB, and the driver did not see it")
    if after > before[uuid] + TOLERANCE:
        raise Wrong(f"{(after - before[uuid]) // _MIB} MiB are still in use")
