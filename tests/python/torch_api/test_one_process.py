"""One worker, local mode, a notebook: the same calls without a process group."""

import collections
import dataclasses
import datetime
import inspect
import io
import pickle

import pytest
import torch
from rtrain.train import _process_group, torch as rt
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

CPU = torch.device("cpu")
Named = collections.namedtuple("Named", "left right")  # noqa: PYI024


@dataclasses.dataclass
class Record:
    pixels: torch.Tensor
    name: str


class Movable:
    def __init__(self):
        self.where = None

    def to(self, device):
        self.where = device
        return self


class OwnLoader(DataLoader):
    def __init__(self, *arguments, label, **named):
        super().__init__(*arguments, **named)
        self.label = label

    def shout(self):
        return self.label.upper()


def numbers(count=6):
    return TensorDataset(torch.arange(count))


def delivered(loader):
    return [batch[0].tolist() for batch in loader]


def init_nothing(worker):
    return None


def collate(items):
    return torch.stack([item[0] for item in items])


def test_module_is_there_and_the_keys_stay_plain():
    model = rt.prepare_model(nn.Linear(2, 1))
    assert isinstance(model, nn.Linear)
    assert list(model.module.state_dict()) == list(model.state_dict()) == ["weight", "bias"]
    assert len(list(model.modules())) == 1
    kept = io.BytesIO()
    torch.save(model, kept)
    kept.seek(0)
    assert torch.equal(torch.load(kept, weights_only=False).module.weight, model.weight)


def test_a_model_with_a_module_of_its_own_keeps_it():
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.module = nn.Linear(1, 1)

    assert isinstance(rt.prepare_model(Wrapper()).module, nn.Linear)


def test_an_unknown_strategy_and_a_thing_that_is_no_loader_are_named():
    with pytest.raises(ValueError, match="'zero'.*ddp, fsdp, fsdp2"):
        rt.prepare_model(nn.Linear(1, 1), parallel_strategy="zero")
    with pytest.raises(TypeError, match="not list"):
        rt.prepare_data_loader([1, 2])


def test_where_this_worker_computes():
    assert rt.get_device() == CPU and rt.get_devices() == [CPU]


@pytest.mark.parametrize("wrong", [{"init_method": "udp"}, {"timeout_s": 0}, {"timeout_s": "soon"}, {"backend": 3}])
def test_a_config_that_cannot_be_is_refused_by_its_field(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        rt.TorchConfig(**wrong)


def test_every_option_of_a_loader_survives():
    options = {
        "batch_size": 2, "shuffle": True, "num_workers": 1, "collate_fn": collate, "pin_memory": False, "drop_last": True,
        "timeout": 30, "worker_init_fn": init_nothing, "multiprocessing_context": "fork", "generator": torch.Generator(),
        "prefetch_factor": 3, "persistent_workers": True, "pin_memory_device": "",
    }  # fmt: skip
    if "in_order" in inspect.signature(DataLoader.__init__).parameters:
        options["in_order"] = False
    before = DataLoader(numbers(), **options)
    loader = rt.prepare_data_loader(before)
    for name in set(options) - {"shuffle", "multiprocessing_context"}:
        assert getattr(loader, name) is getattr(before, name) or getattr(loader, name) == getattr(before, name), name
    assert loader.multiprocessing_context.get_start_method() == "fork"
    assert isinstance(loader, DataLoader) and loader.dataset is before.dataset and len(loader) == 3
    assert isinstance(loader.sampler, RandomSampler)
    pids = []
    for _ in range(2):
        assert sorted(index for batch in loader for index in batch.tolist()) == list(range(6))
        pids.append([worker.pid for worker in loader._progress._fetching._iterator._workers])
    assert pids[0] == pids[1]  # persistent workers are kept


def test_a_batch_sampler_of_ones_own_and_no_batching_survive():
    own = rt.prepare_data_loader(DataLoader(numbers(5), batch_sampler=BatchSampler([4, 2, 0], 2, drop_last=False)))
    assert delivered(own) == [[4, 2], [0]]
    assert [item[0].item() for item in rt.prepare_data_loader(DataLoader(numbers(3), batch_size=None))] == [0, 1, 2]


def test_a_loader_of_the_users_own_class_keeps_what_it_can():
    loader = rt.prepare_data_loader(OwnLoader(numbers(), 3, label="mine"))
    assert loader.shout() == "MINE" and delivered(loader) == [[0, 1, 2], [3, 4, 5]]


def test_set_epoch_reseeds_a_single_worker_too():
    loader = rt.prepare_data_loader(DataLoader(numbers(20), 20, shuffle=True))
    orders = []
    for epoch in (0, 1, 0):
        loader.sampler.set_epoch(epoch)
        orders.append(delivered(loader))
    assert orders[0] == orders[2] != orders[1]
    in_order = rt.prepare_data_loader(DataLoader(numbers(2), 2))
    in_order.sampler.set_epoch(5)
    assert delivered(in_order) == [[0, 1]]


def test_a_prepared_loader_can_be_pickled():
    loader = pickle.loads(pickle.dumps(rt.prepare_data_loader(DataLoader(numbers(4), 2))))
    assert delivered(loader) == [[0, 1], [2, 3]]


def test_batches_are_moved_however_they_are_nested():
    from rtrain._to_device import to_device  # noqa: PLC0415
    from rtrain.train.torch._transfer import tensors_in  # noqa: PLC0415

    meta = torch.device("meta")
    one = torch.ones(2)
    batch = {"a": [one, (one, Named(one, "text"))], "r": Record(one, "seven"), "m": Movable(), "n": None}
    there = to_device(batch, meta)
    assert all(tensor.device == meta for tensor in tensors_in(there)) and len(list(tensors_in(there))) == 4
    assert isinstance(there["a"][1][1], Named) and there["r"].name == "seven" and there["m"].where == meta
    assert one.device == CPU


def test_tensors_are_found_in_objects_that_move_themselves():
    from rtrain.train.torch._transfer import tensors_in  # noqa: PLC0415

    class Slotted:
        __slots__ = ("values",)

        def __init__(self, values):
            self.values = values

    class Graph:
        def __init__(self):
            self.nodes, self.edges, self.itself = torch.ones(2), {"deep": Slotted([torch.ones(3)])}, self

        def to(self, device):
            return self

    assert sorted(len(tensor) for tensor in tensors_in([Graph(), torch.ones(4)])) == [2, 3, 4]
    assert list(tensors_in(Slotted(torch.ones(1)))) == []  # its tensors are not moved


def test_global_batches_cover_an_epoch_and_resume_within_it():
    batches = rt.GlobalBatches(numbers(10), size=4, micro_batch=3, seed=1)
    loader = DataLoader(numbers(10), batch_sampler=batches)
    whole = [(micro.step, batch[0].tolist(), micro.last) for batch, micro in batches.over(loader)]
    assert [step for step, _, last in whole if last] == [0, 1] and len({i for _, part, _ in whole for i in part}) == 8
    batches.set_epoch(0, first_step=1)
    assert [(micro.step, batch[0].tolist(), micro.last) for batch, micro in batches.over(loader)] == whole[2:]
    with pytest.raises(ValueError, match="micro_batch"):
        rt.GlobalBatches(10, size=4, micro_batch=0)


def test_mixed_precision_in_the_older_shape():
    from rtrain.train.torch import _v1  # noqa: PLC0415

    try:
        rt.accelerate(amp=True)
        model = rt.prepare_model(nn.Linear(4, 1))
        optimizer = rt.prepare_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        before = model.weight.detach().clone()
        loss = model(torch.ones(2, 4)).float().mean()
        assert model(torch.ones(2, 4)).dtype == torch.bfloat16
        rt.backward(loss)
        optimizer.step()
        assert not torch.equal(before, model.weight) and list(model.state_dict()) == ["weight", "bias"]
        pickle.dumps(model)
        with pytest.raises(RuntimeError, match="call it once"):
            rt.accelerate(amp=False)
    finally:
        _v1._amp = False


def test_a_restart_under_torchrun_sees_no_keys_of_the_start_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun uses one store for all its starts, in which the addresses of dead ranks remain."""
    c10d = torch.distributed
    served = c10d.TCPStore("127.0.0.1", 0, 1, is_master=True)
    agents = {"TORCHELASTIC_USE_AGENT_STORE": "True", "GROUP_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    for name, value in {**agents, "MASTER_PORT": str(served.port)}.items():
        monkeypatch.setenv(name, value)

    def start(number: int):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(number))
        return _process_group.store_of_this_start(2, datetime.timedelta(seconds=20))

    start(0).set("rank 1", "127.0.0.1:4711")
    assert start(0).get("rank 1") == b"127.0.0.1:4711"
    assert not start(1).check(["rank 1"])
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    assert start(1) is None
