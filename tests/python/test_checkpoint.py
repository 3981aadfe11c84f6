"""Checkpoint objects and the files that both languages share."""

import pathlib
import pickle
import sys

import pytest
from conftest import PACKAGE

sys.path.insert(0, str(PACKAGE))
from rtrain.train import Checkpoint  # noqa: E402


def test_a_checkpoint_is_its_directory(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "model").write_text("w")
    checkpoint = Checkpoint.from_directory(tmp_path / "c")
    with checkpoint.as_directory() as directory:
        assert directory == str(tmp_path / "c") == checkpoint.path
    copy = checkpoint.to_directory(tmp_path / "copy")
    assert (tmp_path / "copy" / "model").read_text() == "w"
    assert copy == str(tmp_path / "copy")


def test_metadata_lies_beside_the_files_and_is_replaced_whole(tmp_path):
    checkpoint = Checkpoint.from_directory(tmp_path)
    assert checkpoint.metadata == {}
    checkpoint.set_metadata({"a": 1})
    checkpoint.update_metadata({"b": 2})
    assert checkpoint.metadata == {"a": 1, "b": 2}
    assert [p.name for p in tmp_path.iterdir()] == [".metadata.json"]


def test_a_checkpoint_that_is_gone_says_where_it_was(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"), Checkpoint(tmp_path / "gone").as_directory():
        pass


def test_tensors_and_values_come_back(tmp_path):
    import torch
    from rtrain.train import tensors

    state = {"w": torch.randn(3, 4, dtype=torch.float64).t(), "b": torch.zeros(2, dtype=torch.bfloat16), "n": torch.tensor(7)}
    tensors.save(tmp_path, "model", state, {"step": 12, "lr": 0.1})
    back, values = tensors.load(tmp_path, "model")
    assert values == {"step": 12, "lr": 0.1}
    assert back.keys() == state.keys()
    assert all(torch.equal(back[key], state[key]) for key in state)


def test_a_checkpoint_on_a_pyarrow_file_system_is_read_through_it(tmp_path):
    fs = pytest.importorskip("pyarrow.fs")
    (tmp_path / "bucket" / "c" / "deep").mkdir(parents=True)
    (tmp_path / "bucket" / "c" / "deep" / "model").write_text("w")
    (tmp_path / "bucket" / "c" / ".metadata.json").write_text('{"a": 1}')
    checkpoint = Checkpoint("c", filesystem=fs.SubTreeFileSystem(str(tmp_path / "bucket"), fs.LocalFileSystem()))
    assert checkpoint.metadata == {"a": 1}
    with checkpoint.as_directory() as directory:
        copy = pathlib.Path(directory)
        assert (copy / "deep" / "model").read_text() == "w"
        with checkpoint.as_directory() as again:
            assert again == directory, "readers of one machine share a copy"
    assert not copy.exists(), "the last reader removes it"
    assert (pathlib.Path(checkpoint.to_directory(tmp_path / "own")) / "deep" / "model").read_text() == "w"
    with pytest.raises(FileNotFoundError, match="does not exist on this machine"):
        checkpoint.set_metadata({})
    assert pickle.loads(pickle.dumps(checkpoint)) == checkpoint
