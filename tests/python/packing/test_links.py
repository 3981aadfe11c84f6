"""Links and special files of a project: which are packed, which are listed as left out. No packer blocks on a pipe."""

from __future__ import annotations

import io
import json
import os
import pathlib
import stat
import sys
import tarfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "runtime" / "python"))

from rtrain import train
from rtrain.train._archive import _package
from rtrain.train._driver import _submission

CASES = json.loads((pathlib.Path(__file__).resolve().parents[2] / "link_cases.json").read_text())


def laid_out(case: dict, tree: pathlib.Path) -> pathlib.Path:
    """Makes the tree of a case and returns the folder to pack."""
    (tree / case["pack"]).mkdir(parents=True)
    for folder in case["git"]:
        (tree / folder / ".git").mkdir(exist_ok=True)
    for name, content in case["files"].items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(content)
    for name, target in case["links"].items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).symlink_to(target.replace("{tree}", str(tree)))
    for name, other in case.get("hard_links", {}).items():
        os.link(tree / other, tree / name)
    for name in case.get("fifos", []):
        os.mkfifo(tree / name)
    for name in case.get("sockets", []):
        os.mknod(tree / name, stat.S_IFSOCK | 0o600)
    return tree / case["pack"]


def unpacked(folder: pathlib.Path) -> dict[str, str]:
    """Returns every file below the folder with its content, and every link with its target."""
    travels = {}
    for above, folders, names in os.walk(folder):
        for name in [*names, *(one for one in folders if (pathlib.Path(above) / one).is_symlink())]:
            place = pathlib.Path(above) / name
            inside = str(place.relative_to(folder))
            travels[inside] = f"-> {os.readlink(place)}" if place.is_symlink() else place.read_text()
    return travels


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_what_is_packed_is_unpacked_by_pythons_without_a_filter_of_their_own(case, tmp_path, monkeypatch) -> None:
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    archive = _package.pack_directory(laid_out(case, tmp_path / "tree"), named=not case.get("unnamed", False))
    _package.untar(_package.decompressed(archive.content), tmp_path / "code")
    assert unpacked(tmp_path / "code") == case["travels"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_links_travel_as_the_table_says(case, tmp_path) -> None:
    """tests/unit/spec/link_cases.cpp runs the same table against the packer of `rtrain submit`."""
    top = laid_out(case, tmp_path / "tree")
    archive = _package.pack_directory(top, named=not case.get("unnamed", False))
    _package.untar(_package.decompressed(archive.content), tmp_path / "code")
    assert unpacked(tmp_path / "code") == case["travels"]
    named = [line.split(" ")[0] for line in archive.left_out] + [name.rstrip("/") for name in archive.secrets]
    assert sorted(named) == sorted(case["left_out"])
    assert _package.pack_directory(top, named=not case.get("unnamed", False)).content == archive.content


def test_what_is_left_out_is_said_once_with_its_reason(tmp_path, capsys) -> None:
    (tmp_path / "data").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    _submission.project_of(train.RunConfig(worker_runtime_env={"working_dir": str(tmp_path)}))
    err = capsys.readouterr().err
    assert err.count("left out: ") == 1 and f"data -> /etc leads out of {tmp_path}; pipe is a FIFO. Give the program" in err


def test_an_empty_folder_is_there_too(tmp_path) -> None:
    """A program may write into the folder. `rtrain submit` packs it too."""
    (tmp_path / "project" / "logs").mkdir(parents=True)
    archive = _package.pack_directory(tmp_path / "project")
    _package.untar(_package.decompressed(archive.content), tmp_path / "code")
    assert (tmp_path / "code" / "logs").is_dir() and archive.files == 0


def test_an_archive_is_the_same_wherever_its_project_lies(tmp_path) -> None:
    archives = []
    for place in ("one", "two/deeper"):
        folder = tmp_path / place
        (folder / "d").mkdir(parents=True)
        (folder / "a").write_text("a")
        (folder / "d" / "l").symlink_to(folder / "a")
        archives.append(_package.pack_directory(folder))
    assert archives[0].digest == archives[1].digest


def test_code_that_a_link_leads_to_changes_what_counts_as_the_code(tmp_path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.py").write_text(name)
    (tmp_path / "now").symlink_to("a")
    before = _package.pack_directory(tmp_path).sources
    (tmp_path / "now").unlink()
    (tmp_path / "now").symlink_to("b")
    assert _package.pack_directory(tmp_path).sources != before


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path, monkeypatch) -> None:
    (tmp_path / "closed").write_text("")
    opened = os.open

    def refuses(path, *flags, **named):
        if pathlib.Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *flags, **named)

    monkeypatch.setattr(os, "open", refuses)
    with pytest.raises(
        _package.PackingError, match=r"/closed cannot be read: Permission denied; make it readable, or name it in "
    ):
        _package.pack_directory(tmp_path)


def test_a_folder_that_cannot_be_listed_is_an_error_that_names_it(tmp_path, monkeypatch) -> None:
    (tmp_path / "closed").mkdir()
    listed = os.scandir

    def refuses(folder):
        if pathlib.Path(folder).name == "closed":
            raise PermissionError(13, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(os, "scandir", refuses)
    with pytest.raises(_package.PackingError, match=r"/closed cannot be read: Permission denied; make it readable"):
        _package.pack_directory(tmp_path)


def test_a_folder_that_is_not_there_is_an_error_and_no_empty_archive(tmp_path) -> None:
    with pytest.raises(_package.PackingError, match=r"/none cannot be read: No such file or directory"):
        _package.pack_directory(tmp_path / "none", named=True)


def test_a_file_that_becomes_a_pipe_is_not_waited_for(tmp_path) -> None:
    from rtrain.train._archive._walk import Entry  # noqa: PLC0415

    os.mkfifo(tmp_path / "pipe")
    with tarfile.open(fileobj=io.BytesIO(), mode="w") as tar:
        assert _package._add(tar, tmp_path, Entry("pipe", tmp_path / "pipe")) is None
