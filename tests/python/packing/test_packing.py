"""The files that are packed with a run, and the values that are unpickled."""

from __future__ import annotations

import io
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tarfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "runtime" / "python"))

from rtrain import train
from rtrain.train import _worker_main
from rtrain.train._archive import _package
from rtrain.train._archive._package import PackingError, pack_directory
from rtrain.train._driver import _submission


def test_an_environment_beside_the_script_stays_behind_by_whatever_name(tmp_path) -> None:
    for name, mark in (("python-3.11", "pyvenv.cfg"), ("inner/conda", "conda-meta/history")):
        (tmp_path / name / mark).parent.mkdir(parents=True)
        (tmp_path / name / mark).write_text("")
        (tmp_path / name / "library.py").write_text("")
    (tmp_path / "train.py").write_text("")
    packed = pack_directory(tmp_path)
    assert packed.files == 1 and sorted(packed.environments) == ["inner/conda", "python-3.11"]


SECRETS = [
    ".aws/credentials",
    ".config/gcloud/x",
    ".env",
    ".env.local",
    ".envrc",
    "a.key",
    "app/.npmrc",
    "app/prod.env",
    "id_rsa",
    "keys/me.pem",
]
OTHERS = [".config/other", "environment.yml", "id_rsa.pub", "keys/me.pub", "monkey.py", "train.py"]


def travelling(archive) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(_package.decompressed(archive.content))) as tar:
        return sorted(member.name for member in tar if not member.isdir())


def test_what_may_hold_secrets_beside_the_script_stays_behind_and_is_told_of(tmp_path, monkeypatch, capsys) -> None:
    for name in [*SECRETS, *OTHERS]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text("a.key\n!.env\n")
    packed = pack_directory(tmp_path)
    assert travelling(packed) == sorted([*OTHERS, ".gitignore"])
    left = [
        ".aws/",
        ".config/gcloud/",
        *(name for name in SECRETS if name != "a.key" and not name.startswith((".aws", ".config"))),
    ]
    assert sorted(packed.secrets) == sorted(left)
    named = pack_directory(tmp_path, named=True)
    assert travelling(named) == sorted({*OTHERS, *SECRETS, ".gitignore"} - {"a.key"}) and named.secrets == ()
    monkeypatch.setattr(_package, "script_directory", lambda: tmp_path)
    _submission.project_of(train.RunConfig())
    assert ".aws/, .config/gcloud/" in (errors := capsys.readouterr().err) and "may hold secrets and stay here" in errors
    _submission.project_of(train.RunConfig(worker_runtime_env={"working_dir": str(tmp_path)}))
    assert "stay here" not in capsys.readouterr().err


def test_an_installed_program_that_only_imports_a_kernel_has_no_folder(tmp_path, monkeypatch) -> None:
    """pytest is such a program. Its working directory is no project, and may change from run to run."""
    pytest.importorskip("ipykernel")
    monkeypatch.chdir(tmp_path)
    assert _package.script_directory() is None


def test_a_folder_that_a_rule_brings_back_brings_no_secrets(tmp_path) -> None:
    """`!*.pub` is meant for keys, but matches this folder's name too."""
    for name in ("keys.pub/.ssh/config", "keys.pub/id_rsa", "keys.pub/id_rsa.pub", "src/.git/config", "src/a.py", "x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text("/*\n!/src\n!/keys.pub\n")
    packed = pack_directory(tmp_path)
    assert travelling(packed) == ["keys.pub/id_rsa.pub", "src/a.py"]
    assert packed.secrets == ("keys.pub/.ssh/", "keys.pub/id_rsa")


CASES = json.loads((pathlib.Path(__file__).resolve().parents[2] / "ignore_cases.json").read_text())


def laid_out(case: dict, folder: pathlib.Path) -> None:
    for name in [*case["travels"], *case["stays"]]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(case["ignore"].get(name, ""), newline="")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_ignore_files_are_read_as_the_table_says(case, tmp_path) -> None:
    """tests/unit/spec/ignore_cases.cpp runs the same table against the packer of `rtrain submit`."""
    laid_out(case, tmp_path)
    assert travelling(pack_directory(tmp_path, named=True)) == sorted(case["travels"])


@pytest.mark.parametrize("case", [case for case in CASES if case["as_git"]], ids=lambda case: case["case"])
def test_the_table_is_what_git_does(case, tmp_path) -> None:
    laid_out(case, tmp_path)
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_DIR": str(tmp_path / ".git"),
    }
    for command in (["init", "-q"], ["ls-files", "-z", "--others", "--exclude-standard"]):
        out = subprocess.run(["git", *command], cwd=tmp_path, env=environment, capture_output=True, check=True).stdout
    assert sorted(filter(None, out.decode().split("\0"))) == sorted(case["travels"])


def test_a_frame_that_is_cut_off_damaged_or_too_large_is_refused(monkeypatch) -> None:
    content = os.urandom(100_000) + b"x" * 300_000
    whole = _package.compressed(content)
    assert len(whole) < 101_000 and _package.decompressed(whole) == content and _package.compressed(content) == whole
    assert _package.decompressed(_package.compressed(b"")) == b""
    for damaged in (
        whole[:-1],
        whole[:14],
        b"",
        b"PK" + whole[2:],
        whole[:90_000] + bytes([whole[90_000] ^ 0xFF]) + whole[90_001:],
    ):
        with pytest.raises(ValueError, match="the code archive is damaged: "):
            _package.decompressed(damaged)
    monkeypatch.setattr(_package, "_UNPACKED_MAX", 1 << 20)
    with pytest.raises(ValueError, match="holds more than 1 MiB"):
        _package.decompressed(_package.compressed(b"\0" * (64 << 20)))


def test_frames_one_after_the_other_are_read_and_what_is_behind_them_is_no_code(monkeypatch) -> None:
    """`zstd` too reads consecutive frames as one content."""
    parts = [b"abc" * 1000, b"", os.urandom(10_000)]
    frames = b"".join(map(_package.compressed, parts))
    assert _package.decompressed(frames) == b"".join(parts)
    for behind in (b"x", b"more", _package.compressed(b"abc")[:-3]):
        with pytest.raises(ValueError, match="the code archive is damaged: "):
            _package.decompressed(frames + behind)
    monkeypatch.setattr(_package, "_UNPACKED_MAX", 1 << 20)
    with pytest.raises(ValueError, match="holds more than 1 MiB"):
        _package.decompressed(_package.compressed(b"\0" * (600 << 10)) * 2)


STORED = "28b52ffdc0500300000000000000190000616263"  # b"abc" in a stored block, as earlier versions packed code


def test_archives_of_earlier_versions_and_of_the_command_line_are_read() -> None:
    assert _package.decompressed(bytes.fromhex(STORED)) == b"abc"
    by_the_tool = subprocess.run(["zstd", "-q", "-19", "-c"], input=b"abc" * 10_000, capture_output=True, check=True).stdout
    assert _package.decompressed(by_the_tool) == b"abc" * 10_000


def test_the_driver_leaves_out_all_that_rtrain_submit_does() -> None:
    text = (pathlib.Path(__file__).resolve().parents[3] / "storage" / "job_spec" / "archive" / "walk.cpp").read_text()
    rules = re.search(r"secret_files =((?:\s*\"[^\"]*\")+);", text)
    assert rules
    theirs = "".join(re.findall(r'"([^"]*)"', rules[1])).split("\\n")
    assert ".env" in theirs and set(filter(None, theirs)) <= set(_package.SECRET_FILES)
    always = re.search(r"always_ignored =\s*\"([^\"]*)\";", text)
    assert always and tuple(filter(None, always[1].split("\\n"))) == _package._ALWAYS_IGNORED


def test_too_many_files_name_the_folders_that_hold_them_and_the_line_that_leaves_them(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(_package, "_FILES_MAX", 10)
    for folder, count in (("images/cats", 30), ("logs", 20), ("src", 2)):
        (tmp_path / folder).mkdir(parents=True)
        for number in range(count):
            (tmp_path / folder / f"{number}").write_text("")
    with pytest.raises(
        PackingError, match=r"most files are in images/ 30, logs/ 20, src/ 2; a line /images/ in .*/\.rtrainignore"
    ):
        pack_directory(tmp_path)
    (tmp_path / ".rtrainignore").write_text("/images/\n/logs/\n")
    assert pack_directory(tmp_path).files == 3


def test_too_many_bytes_name_the_folders_too(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(_package, "_BYTES_MAX", 1 << 20)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "big").write_bytes(b"x" * (3 << 20))
    with pytest.raises(PackingError, match=r"holds 3 MiB .*most MiB are in data/ 3; a line /data/ in"):
        pack_directory(tmp_path)


def test_a_returned_tensor_of_a_gpu_arrives_on_the_cpu(monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    kept = torch.arange(4.0)

    class OnGpu(torch.Tensor):
        """A tensor whose device is a GPU. A copy of it on the CPU has the values."""

        @staticmethod
        def __new__(cls):
            return torch.Tensor._make_wrapper_subclass(cls, kept.shape, dtype=kept.dtype, device="cuda:0")

        @classmethod
        def __torch_dispatch__(cls, function, types, arguments=(), named=None):
            return OnGpu() if function is torch.ops.aten.detach.default else kept.clone()

        def __reduce_ex__(self, protocol):
            return torch.zeros, (1, "the driver has no such device")

    sent: list[bytes] = []

    class Head:
        def put(self, path, content):
            sent.append(content)

    monkeypatch.setattr(_worker_main._worker, "head", Head)
    on_gpu = OnGpu()
    assert on_gpu.device.type == "cuda"
    _worker_main._leave("r-1", "return-1", {"loss": on_gpu, "rest": [on_gpu, torch.ones(2)]})
    unpickled = pickle.loads(sent[0])
    assert (
        unpickled["loss"].device.type == "cpu"
        and torch.equal(unpickled["loss"], kept)
        and unpickled["rest"][0] is unpickled["loss"]
    )
    assert torch.equal(unpickled["rest"][1], torch.ones(2))
