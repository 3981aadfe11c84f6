"""The layout of a mesh over ranks, computed without any process group."""

import pytest
from rtrain.train.torch import device_mesh
from rtrain.train.torch._mesh import RankPlace, _sizes, laid_out


def on(*nodes):
    """Returns the places of ranks on nodes: "aab" is two ranks on a and one on b, as in ranks 0, 1 and 2."""
    order = list(dict.fromkeys(nodes))
    return [RankPlace(node, order.index(node), list(nodes[:rank]).count(node)) for rank, node in enumerate(nodes)]


def test_scattered_ranks_are_grouped_by_node():
    assert laid_out({"dp": 2, "tp": 2}, on(*"abba"), None) == [0, 3, 1, 2]
    assert laid_out({"dp": 2, "tp": 2}, on(*"bbaa"), None) == [0, 1, 2, 3]  # rank 0 begins, whatever its node is called
    assert laid_out({"dp": 4, "tp": 2}, on(*"aaaaaabb"), None) == list(range(8))  # nodes may hold unequal numbers


def test_an_axis_that_crosses_nodes_is_refused_with_counts():
    with pytest.raises(ValueError, match=r"divided as a: 5, b: 3\. Each number must be a multiple of 4.*STRICT_PACK"):
        laid_out({"dp": 2, "tp": 4}, on(*"aaaaabbb"), None)
    with pytest.raises(ValueError, match="within nodes of one value of the label rack"):
        laid_out({"dp": 1, "tp": 4}, on(*"aabb"), "rack")
    assert laid_out({"dp": 8}, on(*"aaaaabbb"), None) == list(range(8))  # a single axis may cross


def test_the_first_reason_of_any_node_is_raised_everywhere():
    places = [one._replace(error="no label") if one.domain == "b" else one for one in on(*"ab")]
    with pytest.raises(ValueError, match="no label"):
        laid_out({"dp": 2}, places, "rack")


def test_sizes_must_fit_the_ranks():
    assert _sizes({"dp": -1, "tp": 4}, 8) == [2, 4]
    for axes, why in (
        ({"dp": 3, "tp": 2}, "multiply to 6, and there are 8 ranks"),
        ({"dp": -1, "tp": 3}, "must divide the 8 ranks"),
        ({"dp": -1, "tp": -1}, "-1 may stand once"),
        ({"dp": 0}, "with sizes from 1 on"),
        ({}, "axes is a dict"),
        ([2, 4], "axes is a dict"),
        ({"dp": True}, "axes is a dict"),
    ):
        with pytest.raises(ValueError, match=why):
            _sizes(axes, 8)


def test_one_process_has_a_mesh_and_no_labels():
    import torch.distributed as dist

    assert not dist.is_initialized()
    try:
        mesh = device_mesh({"dp": -1, "tp": 1})
        assert (tuple(mesh.shape), mesh.mesh_dim_names, mesh.get_local_rank("dp")) == ((1, 1), ("dp", "tp"), 0)
        with pytest.raises(ValueError, match="nodes have labels on a cluster alone"):
            device_mesh({"dp": 1}, label="rack")
    finally:
        dist.destroy_process_group()
