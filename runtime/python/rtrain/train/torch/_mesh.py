"""`device_mesh` lays the ranks out as a mesh whose innermost axis stays within a node, or within nodes of one label."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from rtrain._lazy import public_in
from rtrain.train.torch._group import ensure_process_group
from rtrain.train.torch._place import get_device, place


class RankPlace(NamedTuple):
    """The place of a rank. `domain`: the name of the node, or the value of its label, that bounds the innermost axis."""

    domain: str
    node_rank: int
    local_rank: int
    error: str = ""  # why the domain could not be read; empty: it was read


def device_mesh(axes: Mapping[str, int], *, label: str | None = None, device_type: str | None = None) -> DeviceMesh:
    """Returns a mesh over all ranks with these axes, the outermost first: `device_mesh({"dp": 2, "tp": 4})`.

    The ranks of the innermost axis are on one node each. So its collectives, which tensor parallelism makes in each layer, use
    the fastest links. A mesh with one axis has no such bound. Every rank must call it, with the same arguments.

    axes: the size of each axis by name. One size may be -1: the ranks that the other axes leave, for elastic runs.
    label: the name of a node label, such as one for the NVLink domain. The innermost axis then stays within nodes that share
    the label's value. Only in workers on a cluster.
    device_type: "cuda" or "cpu". Default: the type of `get_device()`.

    The ranks of an axis need not follow each other: use `mesh.get_local_rank("dp")` and `mesh["dp"].size()` to divide data.
    Raises ValueError, on every rank, if the sizes do not fit the number of ranks, or if the innermost axis cannot stay within
    its bound; the text has the number of ranks of each node.
    """
    sizes = _sizes(axes, place().world_size)
    ensure_process_group()
    if not dist.is_initialized():  # one process without a rank: a notebook, or local mode
        c10d: Any = dist
        dist.init_process_group("gloo", store=c10d.HashStore(), rank=0, world_size=1)
    order = laid_out(dict(zip(axes, sizes, strict=True)), _places(label), label)
    device = get_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return DeviceMesh(device_type or device.type, torch.tensor(order).reshape(sizes), mesh_dim_names=tuple(axes))


def laid_out(axes: Mapping[str, int], places: Sequence[RankPlace], label: str | None) -> list[int]:
    """Returns the ranks in the order of the mesh, the innermost axis fastest. places: the place of each rank. ValueError if
    the innermost axis does not stay within a domain.
    """
    if errors := sorted({at.error for at in places if at.error}):
        raise ValueError(errors[0])
    order = sorted(range(len(places)), key=lambda rank: (places[rank].domain, places[rank].node_rank, places[rank].local_rank))
    counts = Counter(at.domain for at in places)
    innermost, size = list(axes.items())[-1]
    if len(axes) == 1 or all(count % size == 0 for count in counts.values()):
        first = {domain: min(rank for rank, at in enumerate(places) if at.domain == domain) for domain in counts}
        return sorted(order, key=lambda rank: first[places[rank].domain])  # rank 0 is the first of the mesh
    bound = "a node" if label is None else f"nodes of one value of the label {label}"
    held = ", ".join(f"{domain}: {count}" for domain, count in sorted(counts.items()))
    raise ValueError(
        f"device_mesh({dict(axes)}): the {size} ranks of the innermost axis {innermost!r} must lie within {bound}, and the ranks are "
        f"divided as {held}. Each number must be a multiple of {size}. Change the axes, or place the workers so: "
        'ScalingConfig(placement_strategy="STRICT_PACK") takes one node, resources_per_worker of a part of a node fill whole nodes, '
        "label_selector= with an entry for each worker names the node of each, and topology= keeps all within one value of a label, "
        "which label= then takes as the bound. torch.distributed.device_mesh.init_device_mesh makes a mesh without a bound"
    )


def _sizes(axes: Mapping[str, int], ranks: int) -> list[int]:
    """Returns the sizes with a number in place of -1. Raises ValueError if they do not multiply to the number of ranks."""
    shown = dict(axes) if isinstance(axes, Mapping) else axes
    sizes = list(axes.values()) if isinstance(axes, Mapping) else []
    if not sizes or any(isinstance(size, bool) or not isinstance(size, int) or (size < 1 and size != -1) for size in sizes):
        raise ValueError(f'device_mesh({shown!r}): axes is a dict such as {{"dp": 2, "tp": 4}}, with sizes from 1 on, or one -1')
    known = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) > 1 or (-1 in sizes and ranks % known):
        raise ValueError(f"device_mesh({shown!r}): -1 may stand once, and the other sizes must divide the {ranks} ranks")
    sizes = [ranks // known if size == -1 else size for size in sizes]
    if math.prod(sizes) != ranks:
        raise ValueError(
            f"device_mesh({shown!r}): the sizes multiply to {math.prod(sizes)}, and there are {ranks} ranks; change the sizes, or "
            f"run {math.prod(sizes)} workers (ScalingConfig(num_workers={math.prod(sizes)}))"
        )
    return sizes


def _places(label: str | None) -> list[RankPlace]:
    """Returns the place of each rank. Each node's first rank reads the node's label."""
    here = place()
    own = RankPlace(_node_name(here.node_rank), here.node_rank, here.local_rank)
    if label is not None and here.local_rank == 0:
        own = _labelled(own, label)
    gathered: list[Any] = [own]
    if here.world_size > 1:
        gathered = [None] * here.world_size
        dist.all_gather_object(gathered, own)
    if label is None:
        return gathered
    of_node = {at.node_rank: at for at in gathered if at.local_rank == 0}
    return [at._replace(domain=of_node[at.node_rank].domain, error=of_node[at.node_rank].error) for at in gathered]


def _node_name(node_rank: int) -> str:
    from rtrain.train import _session

    session = _session.active()
    return (session.facts.node if session is not None else "") or f"node {node_rank}"


def _labelled(own: RankPlace, label: str) -> RankPlace:
    """Returns the place with the label's value of this node, or with the reason why there is none."""
    from rtrain._http import HeadError, part
    from rtrain.train import _worker

    if "RTRAIN_WORKER_SOCKET" not in os.environ:
        return own._replace(error=f"device_mesh(label={label!r}): nodes have labels on a cluster alone; leave label= out here")
    try:
        labels = _worker.head().get(f"/v1/nodes/{part(own.domain)}").get("labels", {})
    except HeadError as error:
        return own._replace(error=f"device_mesh(label={label!r}): the labels of the node {own.domain} could not be read: {error}")
    if label not in labels:
        there = ", ".join(sorted(labels)) or "none"
        return own._replace(
            error=f"device_mesh(label={label!r}): the node {own.domain} has no such label; it has {there}. "
            "`rtrain node join --label NAME=VALUE` sets one"
        )
    return own._replace(domain=str(labels[label]))


public_in("rtrain.train.torch", device_mesh)
