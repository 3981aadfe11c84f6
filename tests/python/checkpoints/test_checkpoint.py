"""Checkpoint objects and the files that both languages share."""

import contextlib
import hashlib
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap

import pytest
from conftest import PACKAGE
from left_behind import left_in

sys.path.insert(0, str(PACKAGE))
from rtrain.train import Checkpoint
from rtrain.train._run_directory import _reading  # noqa: E402


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


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Sets a temporary directory for the copies of this test."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place / f"rtrain-checkpoints-{os.getuid()}"


class Run:
    """A run's directory that is not mounted here, so that its checkpoints are copied."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        monkeypatch.setattr(_reading, "open_directory", lambda base, head: _reading.LocalDirectory(str(folder)))

    def commit(self, text, path="model"):
        (self.folder / "c").mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "c" / path).write_text(text)
        files = [{"path": path, "sha256": hashlib.sha256(text.encode()).hexdigest()}]
        (self.folder / "c" / _reading.MANIFEST).write_text(json.dumps({"files": files}))
        return Checkpoint("cluster://run/c")


def killed_while_reading(checkpoint):
    """Leaves the copy of a reader that is killed."""
    child = os.fork()
    if child == 0:
        with checkpoint.as_directory():
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_copy_that_a_killed_reader_left_is_not_taken_for_what_the_source_holds_now(tmp_path, machine, monkeypatch):
    run = Run(tmp_path / "run", monkeypatch)
    killed_while_reading(run.commit("old"))
    with run.commit("new").as_directory() as directory:
        assert (pathlib.Path(directory) / "model").read_text() == "new"
    assert not list(machine.glob("*.copy")), "what the killed reader left goes as well"


def test_a_copy_that_a_killed_reader_left_of_a_file_system_is_not_taken_after_a_change(tmp_path, machine):
    fs = pytest.importorskip("pyarrow.fs")
    (tmp_path / "bucket" / "c").mkdir(parents=True)
    (tmp_path / "bucket" / "c" / "model").write_text("old")
    checkpoint = Checkpoint("c", filesystem=fs.SubTreeFileSystem(str(tmp_path / "bucket"), fs.LocalFileSystem()))
    killed_while_reading(checkpoint)
    (tmp_path / "bucket" / "c" / "model").write_text("newer")
    with checkpoint.as_directory() as directory:
        assert (pathlib.Path(directory) / "model").read_text() == "newer"


def test_a_copy_that_was_cut_off_or_made_before_the_machine_went_down_is_made_anew(tmp_path, machine, monkeypatch):
    checkpoint = Run(tmp_path / "run", monkeypatch).commit("weights")
    for mark in (None, "another boot"):
        killed_while_reading(checkpoint)
        (copy,) = machine.glob("*.copy")
        (copy / "model").write_text("wei")
        copy.with_suffix(".whole").unlink() if mark is None else copy.with_suffix(".whole").write_text(mark)
        monkeypatch.setattr("rtrain.train._run_directory._shared_copy._sweep", lambda base: None)
        with checkpoint.as_directory() as directory:
            assert (pathlib.Path(directory) / "model").read_text() == "weights"


def test_copies_are_for_their_user_alone(tmp_path, machine, monkeypatch):
    checkpoint = Run(tmp_path / "run", monkeypatch).commit("weights")
    machine.mkdir(mode=0o755)  # the mode of older versions
    with checkpoint.as_directory() as directory:
        assert pathlib.Path(directory).parent == machine
        assert machine.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("taken", ["link", "other", "writable"])
def test_a_place_for_copies_that_somebody_else_has_made_is_not_used(tmp_path, machine, monkeypatch, taken):
    checkpoint = Run(tmp_path / "run", monkeypatch).commit("weights")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if taken == "link":
        machine.symlink_to(elsewhere)
    else:
        machine.mkdir()
        if taken == "writable":
            machine.chmod(0o777)
        elif os.getuid() == 0:
            os.chown(machine, 65534, 65534)
        else:
            pytest.skip("changes users")
    with pytest.warns(UserWarning, match="not shared between processes"), checkpoint.as_directory() as directory:
        copy = pathlib.Path(directory)
        assert (copy / "model").read_text() == "weights"
        assert machine not in copy.parents
        assert copy.stat().st_mode & 0o777 == 0o700
    assert not copy.exists()
    assert not list(elsewhere.iterdir())


def test_a_manifest_does_not_name_files_outside_of_its_checkpoint(tmp_path, machine, monkeypatch):
    for path in ("../escaped", str(tmp_path / "escaped")):
        checkpoint = Run(tmp_path / "run", monkeypatch).commit("text", path)
        with pytest.raises(OSError, match="does not lie in a checkpoint"), checkpoint.as_directory():
            pass


ENDS = {
    "at its end": "",
    "by an exception": "raise KeyError",
    "as a failed worker does": "from rtrain import _own_folders; _own_folders.remove_all(); os._exit(3)",
    "after a forked child has ended": "if os.fork() == 0: sys.exit()\nos.wait(); assert pathlib.Path(kept.path).is_dir()",
    "after a copy that failed": """
        (pathlib.Path(kept.path) / "loop").symlink_to("nowhere")
        try: kept.to_directory()
        except Exception: pass
        else: raise SystemExit("it was copied")""",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_process_leaves_no_temporary_directory(tmp_path, end) -> None:
    script = (
        "import os, pathlib, sys\nfrom rtrain.train import Checkpoint\nkept = Checkpoint.from_dict({'x': 1})\n"
        "for _ in range(3): Checkpoint.from_dict({'y': 2})\n" + textwrap.dedent(ENDS[end])
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == {"by an exception": 1, "as a failed worker does": 3}.get(end, 0), done.stderr
    assert left_in(tmp_path) == []


def test_a_copy_in_a_new_directory_is_the_callers_and_has_no_lock(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    checkpoint = Checkpoint.from_dict({"x": 1})
    copy = checkpoint.to_directory()
    del checkpoint
    assert left_in(tmp_path) == [pathlib.Path(copy).name] and os.listdir(copy) == ["dict_checkpoint.pkl"]
