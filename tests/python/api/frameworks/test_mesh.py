"""`device_mesh` with 8 ranks on 2 nodes: the layout, collectives and a pipeline on it, bounds by label, refusals."""

from __future__ import annotations

import pytest
from rtrain import train
from rtrain.train import RunConfig, ScalingConfig
from rtrain.train.torch import TorchConfig, TorchTrainer


def loop(config):
    import torch
    import torch.distributed as dist
    from rtrain.train.torch import device_mesh
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.set_num_threads(1)
    context = train.get_context()
    mesh = device_mesh({"dp": 2, "tp": 4})
    nodes = torch.tensor([float(context.get_node_rank())])
    dist.all_reduce(nodes, group=mesh["tp"].get_group())
    across = torch.tensor([float(context.get_node_rank())])
    dist.all_reduce(across, group=mesh["dp"].get_group())
    refused = {}
    for name, axes, label in (
        ("wide", {"dp": 1, "tp": 8}, None),
        ("sizes", {"dp": 3, "tp": 2}, None),
        ("label", {"dp": 2, "tp": 4}, "rack"),
    ):
        try:
            device_mesh(axes, label=label)
        except ValueError as error:
            refused[name] = str(error)

    # A pipeline of two stages: each rank of the first sends to the rank at its place in the second.
    cube = device_mesh({"pp": 2, "dp": -1, "tp": 2})
    torch.manual_seed(cube.get_local_rank("pp"))
    layer = torch.nn.Linear(4, 4)
    stage = PipelineStage(layer, cube.get_local_rank("pp"), 2, torch.device("cpu"), group=cube["pp"].get_group())
    schedule = ScheduleGPipe(stage, 2, loss_fn=torch.nn.functional.mse_loss)
    rows, losses = torch.arange(16.0).reshape(4, 4) / 16, []
    if cube.get_local_rank("pp") == 0:
        schedule.step(rows)
    else:
        schedule.step(target=torch.ones(4, 4), losses=losses)
    own = {
        "node": context.get_node(),
        "dp": mesh.get_local_rank("dp"),
        "tp": mesh.get_local_rank("tp"),
        "sums": (nodes.item(), across.item()),
        "one domain": tuple(device_mesh({"dp": 1, "tp": 8}, label="nvlink").shape),
        "cube": tuple(cube.shape),
        "losses": [loss.item() for loss in losses],
        "gradient": layer.weight.grad.abs().sum().item(),
        "refused": refused,
    }
    everybody = [None] * 8
    dist.all_gather_object(everybody, own)
    return everybody


def test_the_innermost_axis_stays_within_a_node(cluster, tmp_path):
    result = TorchTrainer(
        loop,
        torch_config=TorchConfig(backend="gloo", timeout_s=120),
        scaling_config=ScalingConfig(num_workers=8, resources_per_worker={"CPU": 2}),
        run_config=RunConfig(name=cluster.name("mesh"), storage_path=str(tmp_path), env={"OMP_NUM_THREADS": "1"}),
    ).fit()
    ranks = result.return_value
    by_row = {(one["dp"], one["tp"]): one["node"] for one in ranks}
    assert sorted(by_row) == [(dp, tp) for dp in range(2) for tp in range(4)]
    rows = [{by_row[dp, tp] for tp in range(4)} for dp in range(2)]
    assert [len(row) for row in rows] == [1, 1]
    assert rows[0] | rows[1] == {"node-1", "node-2"}
    assert {one["sums"] for one in ranks} == {(0.0, 1.0), (4.0, 1.0)}  # four ranks of one node; a rank of each node
    assert {one["one domain"] for one in ranks} == {(1, 8)}
    assert {one["cube"] for one in ranks} == {(2, 2, 2)}
    losses = [one["losses"] for one in ranks if one["losses"]]
    assert len(losses) == 4
    assert all(each == losses[0] for each in losses)
    assert losses[0] == pytest.approx(expected_losses())
    assert all(one["gradient"] > 0 for one in ranks)
    for one in ranks:
        assert "the 8 ranks of the innermost axis 'tp' must lie within a node" in one["refused"]["wide"]
        assert "node-1: 4, node-2: 4" in one["refused"]["wide"]
        assert "the sizes multiply to 6, and there are 8 ranks" in one["refused"]["sizes"]
        assert "has no such label; it has" in one["refused"]["label"]
        assert "nvlink" in one["refused"]["label"]


def expected_losses():
    """Returns the losses of the two microbatches as one process computes them."""
    import torch

    layers = []
    for seed in range(2):
        torch.manual_seed(seed)
        layers.append(torch.nn.Linear(4, 4))
    rows = torch.arange(16.0).reshape(4, 4) / 16
    with torch.no_grad():
        return [torch.nn.functional.mse_loss(layers[1](layers[0](part)), torch.ones(2, 4)).item() for part in rows.chunk(2)]
