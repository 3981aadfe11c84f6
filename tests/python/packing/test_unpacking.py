"""Archives are unpacked into their folder and nowhere else, on Pythons without tarfile's own filter too."""

from __future__ import annotations

import io
import tarfile

import pytest
from rtrain.train._archive import _package


@pytest.fixture
def old_python(monkeypatch):
    monkeypatch.delattr(tarfile, "data_filter", raising=False)


def archive(*entries):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, kind, link in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = kind, link, 0o4777
            content = b"text" if kind == tarfile.REGTYPE else b""
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


FILE, LINK, HARD, DEVICE = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([("../out", FILE, "")], "outside"),
        ([("a/../../out", FILE, "")], "outside"),
        ([("/proc/rtrain-out", FILE, "")], "outside"),
        ([("a", LINK, "..")], "outside"),
        ([("d/a", LINK, "../../x")], "outside"),
        ([("a", LINK, "/etc")], "outside"),
        ([("a", HARD, "../x")], "outside"),
        ([("d", LINK, "."), ("d/x", FILE, "")], "through a link"),
        ([("d/l", LINK, ".."), ("x", LINK, "d/l/..")], "through a link"),
        ([("x", LINK, "d/l/.."), ("d/l", LINK, "..")], "through a link"),
        ([("d/l", LINK, ".."), ("e/x", LINK, "../d/./l/../../out")], "through a link"),
        ([("d/l", LINK, ".."), ("x", HARD, "d/l/../out")], "through a link"),
        ([("pipe", DEVICE, "")], "neither a file"),
    ],
)
def test_what_leads_out_is_refused_before_anything_is_written(entries, message, tmp_path, old_python):
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(ValueError, match=message):
        _package.untar(archive(("first", FILE, ""), *entries), inner)
    assert [path.name for path in tmp_path.rglob("*")] == ["inner"]


def test_ordinary_archives_are_unpacked(tmp_path, old_python):
    (tmp_path / "from" / "deep").mkdir(parents=True)
    (tmp_path / "from" / "deep" / "a.txt").write_text("a")
    (tmp_path / "from" / "link").symlink_to("deep/a.txt")
    _package.untar(_package.tar_of(tmp_path / "from"), tmp_path / "to")
    assert (tmp_path / "to" / "deep" / "a.txt").read_text() == (tmp_path / "to" / "link").read_text() == "a"
    _package.untar(archive(("set-user-id", FILE, "")), tmp_path / "to")
    assert (tmp_path / "to" / "set-user-id").stat().st_mode & 0o7777 == 0o755
