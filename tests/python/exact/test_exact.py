"""Data-parallel training in C++ gives the same model, alone and with a C++ rank and a Python rank in one group."""

import pathlib
import subprocess
import sys

import pytest
import torch
from rtrain.train import tensors
from torch.utils.data import DistributedSampler

PYTHON_RANK = [sys.executable, pathlib.Path(__file__).parent / "python_rank.py"]
STEPS = 20


def model(folder, rank=0):
    state, values = tensors.load(folder / f"rank{rank}", "state")
    return {name: value for name, value in state.items() if name.startswith("model.")}, values


def difference(one, other):
    assert one.keys() == other.keys()
    return max((one[name] - other[name]).abs().max().item() for name in one)


@pytest.fixture
def alone(run_ranks, probe, tmp_path):
    """Trains with the whole batch in one process."""
    run_ranks([probe, "train", tmp_path / "alone", 0, STEPS])
    return model(tmp_path / "alone")[0]


def test_two_processes_train_as_one_with_the_same_global_batch(run_ranks, probe, tmp_path, alone):
    out = tmp_path / "two"
    run_ranks(*[[probe, "train", out, 0, STEPS]] * 2)
    assert difference(model(out, 0)[0], model(out, 1)[0]) == 0
    assert 0 <= difference(model(out, 0)[0], alone) < 1e-12
    assert model(out)[1] == {"step": STEPS}


@pytest.mark.parametrize("python_rank", [0, 1])
def test_a_python_rank_and_a_cpp_rank_are_one_group(run_ranks, probe, tmp_path, alone, python_rank):
    out = tmp_path / "mixed"
    commands = [[probe, "train", out, 0, STEPS]] * 2
    commands[python_rank] = [*PYTHON_RANK, out, STEPS]
    run_ranks(*commands)
    if python_rank == 0:  # rank 0 initialises the model, and the two languages draw different numbers
        run_ranks([*PYTHON_RANK, tmp_path / "alone-python", STEPS])
        alone = model(tmp_path / "alone-python")[0]
    here, there = model(out, 0)[0], model(out, 1)[0]
    assert difference(here, there) == 0
    assert difference(here, alone) < 1e-12


def test_a_resumed_run_makes_the_same_steps(run_ranks, probe, tmp_path):
    whole, first, second = tmp_path / "whole", tmp_path / "first", tmp_path / "second"
    run_ranks(*[[probe, "train", whole, 0, 10]] * 2)
    run_ranks(*[[probe, "train", first, 0, 4]] * 2)
    run_ranks(*[[probe, "train", second, 4, 10, first / "rank0"]] * 2)
    assert difference(model(second)[0], model(whole)[0]) == 0


def test_the_sampler_gives_the_same_indices_as_pytorchs(probe):
    for count, world, epoch, seed in ((1437, 2, 0, 0), (10, 4, 3, 7), (3, 5, 1, 2)):
        words = [probe, "sampler", str(count), str(world), str(epoch), str(seed)]
        lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
        for rank in range(world):
            reference = DistributedSampler(range(count), world, rank, seed=seed)
            reference.set_epoch(epoch)
            assert [int(word) for word in lines[rank].split()] == list(reference)


def test_tensor_files_go_from_python_through_cpp_and_back(probe, tmp_path):
    kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]
    state = {f"t.{kind}": (torch.arange(12) - 3).to(kind).reshape(3, 4) for kind in kinds}
    state |= {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3), "turned": torch.randn(4, 5).t(), "ü": torch.ones(1)}
    values = {"step": 7, "lr": 0.1, "note": "größe", "deep": {"list": [1, None, True]}}
    tensors.save(tmp_path / "python", "state", state, values)
    subprocess.run([probe, "copy", tmp_path / "python", tmp_path / "cpp"], check=True)
    back, values_back = tensors.load(tmp_path / "cpp", "state")
    assert values_back == values
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) and back[name].dtype == state[name].dtype for name in state)


def test_a_damaged_file_is_named(probe, tmp_path):
    tensors.save(tmp_path / "a", "state", {"w": torch.ones(100)}, {})
    whole = (tmp_path / "a" / "state.safetensors").read_bytes()
    damages = {
        "cut": whole[:-1],
        "headless": whole[:5],
        "long": (1 << 60).to_bytes(8, "little") + whole[8:],
        "shape": whole.replace(b"[100]", b"[900]"),
        "type": whole.replace(b'"F32"', b'"F99"'),
        "negative": whole.replace(b"[100]", b"[-10]"),
        "text": whole.replace(b"{", b"[", 1),
    }
    for name, content in damages.items():
        (tmp_path / "a" / "state.safetensors").write_bytes(content)
        result = subprocess.run([probe, "copy", tmp_path / "a", tmp_path / "b"], capture_output=True, text=True, check=False)
        assert result.returncode == 1, name
        assert "state.safetensors" in result.stderr, name
