"""`storage_filesystem`: the values that nodes get, the errors, and the place where a worker finds its run."""

from __future__ import annotations

import json
import pathlib
import pickle
import sys
from typing import Any

import pytest
from rtrain import train, tune
from rtrain.train import Checkpoint, DataParallelTrainer, Result, RunConfig, _context
from rtrain.train._archive._package import Payload
from rtrain.train._driver._submission import Project, Submission
from rtrain.train._run_directory import _filesystems, _reading, _views
from rtrain.train._values._facts import Facts
from rtrain.tune import _config

fs = pytest.importorskip("pyarrow.fs")
SERVER = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION")
KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "very-secret"}


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    for name in [*_filesystems.KEYS, *SERVER]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_filesystems, "_places", {})
    monkeypatch.setattr(_views, "_known", {})


def s3(**more: Any) -> Any:
    return fs.S3FileSystem(**{"access_key": "id", "secret_key": "very-secret", "region": "eu-west-1"} | more)


class S3Fs:
    """An object with the attributes of a file system of s3fs."""

    protocol = ("s3", "s3a")

    def __init__(self, **given: Any) -> None:
        self.key = self.secret = self.token = self.endpoint_url = None
        self.client_kwargs: dict[str, Any] = {}
        self.__dict__.update(given)


class Head:
    """Records the submitted runs."""

    def __init__(self) -> None:
        self.blobs: list[bytes] = []
        self.body: dict[str, Any] = {}

    def get(self, path: str) -> dict[str, Any]:
        from rtrain._http import NotFound

        raise NotFound("not_found", "there is no such run")

    def upload_blob(self, content: bytes) -> str:
        self.blobs.append(content)
        return "0" * 64

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.body = body
        return {"run_id": "r-1", "name": body["job"]["name"], "state": "RUNNING", "run_path": "s3://bucket/prefix/mine"}


def submitted(config: RunConfig) -> Head:
    head = Head()
    Submission(DataParallelTrainer(lambda: None, run_config=config), head, Project(None)).start()
    return head


# -- what nodes are told ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "filesystem",
    [
        lambda: s3(endpoint_override="store:9000", scheme="http"),
        lambda: fs.SubTreeFileSystem("bucket", s3(endpoint_override="http://store:9000")),
        lambda: S3Fs(
            key="id", secret="very-secret", endpoint_url="http://store:9000", client_kwargs={"region_name": "eu-west-1"}
        ),
        lambda: S3Fs(
            key="id", secret="very-secret", client_kwargs={"endpoint_url": "http://store:9000", "region_name": "eu-west-1"}
        ),
        lambda: S3Fs(
            endpoint_url="http://store:9000",
            client_kwargs={"aws_access_key_id": "id", "aws_secret_access_key": "very-secret", "region_name": "eu-west-1"},
        ),
    ],
)
def test_an_s3_file_system_s_server_and_keys_go_to_the_run_and_into_no_file(filesystem) -> None:
    made = filesystem()
    path = "prefix" if isinstance(made, fs.SubTreeFileSystem) else "bucket/prefix"
    config = RunConfig(name="mine", storage_path=path, storage_filesystem=made, secrets=["HOME"])
    assert config.storage_path == "s3://bucket/prefix"
    head = submitted(config)
    job = head.body["job"]
    assert job["storage_path"] == "s3://bucket/prefix"
    assert job["env"]["AWS_ENDPOINT_URL"] == "http://store:9000" and job["env"]["AWS_REGION"] == "eu-west-1"
    assert job["secrets"] == [*KEYS, "HOME"] and {**head.body["secrets"], **KEYS} == head.body["secrets"]
    assert "very-secret" not in str(job) and not any(b"very-secret" in blob for blob in head.blobs)
    assert Payload.from_bytes(head.blobs[-1], "it").part("trainer")["run_config"].storage_filesystem is None
    assert "very-secret" not in repr(config.place)


def test_a_trial_s_run_has_the_sweep_s_server_and_keys() -> None:
    sweep = _config.of_tuner(tune.RunConfig(storage_path="prefix", storage_filesystem=fs.SubTreeFileSystem("bucket", s3())))
    trial = _config.of_trial(sweep, name="one", storage_path=f"{sweep.storage_path}/sweep", env={})
    assert trial.place.path == "s3://bucket/prefix/sweep" and dict(trial.place.keys) == KEYS


def test_a_file_system_of_this_machine_is_a_path(tmp_path) -> None:
    below = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    assert RunConfig(storage_path="runs", storage_filesystem=below).storage_path == f"{tmp_path}/runs"
    local = RunConfig(storage_path=str(tmp_path), storage_filesystem=fs.LocalFileSystem())
    assert local.storage_path == str(tmp_path) and not local.place.environment


def test_keys_of_the_environment_go_with_a_server_that_comes_without(monkeypatch) -> None:
    bare = S3Fs(endpoint_url="http://store:9000")
    with pytest.raises(
        ValueError, match="names the server http://store:9000 without keys, and the nodes would write to their own"
    ):
        RunConfig(storage_path="bucket", storage_filesystem=bare)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    assert dict(RunConfig(storage_path="bucket", storage_filesystem=bare).place.keys) == KEYS
    # The agents use their own settings.
    assert not RunConfig(storage_path="bucket", storage_filesystem=S3Fs()).place.environment


@pytest.mark.parametrize(
    ("filesystem", "message"),
    [
        (lambda: s3(force_virtual_addressing=True), "has force_virtual_addressing, which the nodes cannot be told"),
        (lambda: s3(proxy_options="http://me:very-secret@proxy:8080"), "has proxy_options, which"),
        (lambda: fs.S3FileSystem(anonymous=True, region="eu-west-1"), "has anonymous, which"),
        (lambda: S3Fs(anon=True), "has anon, which"),
        (
            lambda: s3(endpoint_override="http://me:very-secret@store:9000"),
            "has an endpoint with a user's name or password in it",
        ),
        (lambda: S3Fs(kwargs={"profile": "very-secret"}), "has profile, which"),
        (lambda: S3Fs(config_kwargs={"s3": {"addressing_style": "path"}}), r"has config_kwargs\['s3'\], which"),
        (
            lambda: S3Fs(s3_additional_kwargs={"SSECustomerKey": "very-secret"}),
            r"has s3_additional_kwargs\['SSECustomerKey'\], which",
        ),
        (lambda: S3Fs(req_kw={"RequestPayer": "requester"}), "has req_kw, which"),
        (lambda: S3Fs(use_ssl=False), "has use_ssl, which"),
        (
            lambda: S3Fs(key="id", client_kwargs={"aws_access_key_id": "very-secret"}),
            r"has client_kwargs\['aws_access_key_id'\] beside key",
        ),
        (lambda: S3Fs(storage_options={"session": "very-secret"}), "has session, which"),
        (lambda: S3Fs(key="id"), "a part of its keys"),
        (lambda: S3Fs(client_kwargs={"verify": False}), r"has client_kwargs\['verify'\], which"),
        (lambda: fs._MockFileSystem(), "of kind 'mock' cannot be pickled"),
    ],
)
def test_what_nodes_cannot_be_told_is_refused_where_it_is_given(filesystem, message) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        RunConfig(storage_path="bucket/prefix", storage_filesystem=filesystem())
    assert "very-secret" not in str(refused.value)


def test_what_is_no_file_system_is_not_shown() -> None:
    with pytest.raises(TypeError, match="storage_filesystem is of type dict") as refused:
        RunConfig(storage_path="bucket/prefix", storage_filesystem={"secret": "very-secret"})
    assert "very-secret" not in str(refused.value)


def test_the_package_s3fs_keeps_what_it_is_given_where_it_is_looked_for() -> None:
    s3fs = pytest.importorskip("s3fs")

    def place(**given: Any) -> _filesystems.Place:
        return _filesystems.place_of("bucket/prefix", s3fs.S3FileSystem(skip_instance_cache=True, **given))

    inner = {"aws_access_key_id": "id", "aws_secret_access_key": "very-secret"}
    for given in (
        {"key": "id", "secret": "very-secret"},
        {"client_kwargs": inner},
        {"username": "id", "password": "very-secret"},
    ):
        assert dict(place(endpoint_url="http://store:9000", **given).keys) == KEYS
    odd: list[dict[str, Any]] = [
        {"profile": "p"},
        {"anon": True},
        {"requester_pays": True},
        {"use_ssl": False},
        {"session": object()},
    ]
    odd += [{"config_kwargs": {"s3": {"addressing_style": "path"}}}, {"s3_additional_kwargs": {"ServerSideEncryption": "AES256"}}]
    for given in odd:
        with pytest.raises(ValueError, match="which the nodes cannot be told"):
            place(**given)


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_s3fs_asks_the_server_that_its_environment_names(variable, monkeypatch) -> None:
    monkeypatch.setenv(variable, "http://store:9000")
    place = _filesystems.place_of("bucket", S3Fs(key="id", secret="very-secret"))
    assert place.variables["AWS_ENDPOINT_URL"] == place.variables["AWS_ENDPOINT_URL_S3"] == "http://store:9000"
    assert "AWS_ENDPOINT_URL" not in _filesystems.place_of("bucket", s3()).variables  # pyarrow does not read it


@pytest.mark.parametrize("server", [{"endpoint_override": "store:9000"}, {}])
def test_below_the_place_its_server_is_asked_and_not_the_one_of_this_process(server, monkeypatch) -> None:
    for name in SERVER:
        monkeypatch.setenv(name, "http://of-this-process:1")
    _filesystems.remember(_filesystems.place_of("bucket/prefix", s3(**server)))
    environment = _filesystems.environment_for("s3://bucket/prefix/mine")
    endpoints = {environment.get("AWS_ENDPOINT_URL"), environment.get("AWS_ENDPOINT_URL_S3")}
    assert endpoints == {"https://store:9000" if server else None}
    assert {environment["AWS_REGION"], environment["AWS_DEFAULT_REGION"]} == {"eu-west-1"}
    assert _filesystems.filesystem_for("s3://bucket/prefix/mine") == s3(**server)
    assert _filesystems.environment_for("s3://other")["AWS_ENDPOINT_URL_S3"] == "http://of-this-process:1"


def test_keys_that_are_given_twice_are_refused() -> None:
    config = RunConfig(storage_path="bucket", storage_filesystem=s3(), secrets=["AWS_ACCESS_KEY_ID"])
    with pytest.raises(ValueError, match="both give AWS_ACCESS_KEY_ID"):
        submitted(config)


def test_what_is_read_below_the_place_is_read_with_its_keys_and_nothing_else(monkeypatch) -> None:
    asked: list[dict[str, str]] = []

    def run(command, env, **_):
        asked.append(env)
        return type("Done", (), {"returncode": 3, "stdout": "", "stderr": ""})

    monkeypatch.setattr(_reading.subprocess, "run", run)
    monkeypatch.setenv("RTRAIN_BINARY", sys.executable)  # the program is not run
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-this-process")
    submitted(RunConfig(name="mine", storage_path="bucket/prefix", storage_filesystem=s3(endpoint_override="store:9000")))
    with pytest.raises(FileNotFoundError), Checkpoint("s3://bucket/prefix/mine/one").as_directory():
        pass
    below = list(asked)  # each directory above that may be the run's
    assert below and all(one["AWS_ACCESS_KEY_ID"] == "id" for one in below)
    assert all(one["AWS_ENDPOINT_URL"] == "https://store:9000" and "AWS_SESSION_TOKEN" not in one for one in below)
    with pytest.raises(FileNotFoundError), Checkpoint("s3://bucket/prefixes/one").as_directory():
        pass
    beside = asked[len(below) :]
    assert beside and all("AWS_ACCESS_KEY_ID" not in one and one["AWS_SESSION_TOKEN"] == "of-this-process" for one in beside)


def test_a_result_is_read_from_any_file_system_that_this_process_has() -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    manifest = {"attempt": 1, "report": 2, "metrics": {"loss": 0.5}, "files": []}
    kept = {
        "run.json": {"job": {}},
        "attempts/000001/metrics-000001.jsonl": {"index": 2, "metrics": {"0": {"loss": 0.5}}},
        "names/best": {"attempt": 1, "report": 2},
        "best/.manifest.json": manifest,
        "plots/.manifest.json": manifest,  # has no claim
        "best/model.txt": {"w": 1},
    }
    for name, content in kept.items():
        memory.pipe_file(f"/runs/mine/{name}", json.dumps(content).encode())
    for given in (memory, fs.PyFileSystem(fs.FSSpecHandler(memory))):
        result = Result.from_path("/runs/mine", storage_filesystem=given)
        assert result.metrics == {"loss": 0.5} and result.checkpoint.metrics == {"loss": 0.5} and result.filesystem is given
        with result.checkpoint.as_directory() as folder:
            assert (pathlib.Path(folder) / "model.txt").read_text() == '{"w": 1}'
        with pytest.raises(RuntimeError, match="Experiment folder /runs/none doesn't exist"):
            Result.from_path("/runs/none", storage_filesystem=given)


# -- what a script sees of its run ------------------------------------------------------------------------------------------
def reporting():
    before = train.get_checkpoint()
    train.report({"step": 1}, Checkpoint.from_dict({"step": 1}))
    seen = train.get_checkpoint()
    return (
        (before and before.path),
        seen.path,
        seen.filesystem,
        [one.checkpoint.path for one in train.get_all_reported_checkpoints()],
    )


@pytest.mark.parametrize("base", ["", "inner"])
def test_results_and_checkpoints_have_their_path_on_the_file_system(tmp_path, base) -> None:
    (tmp_path / base).mkdir(exist_ok=True)
    given = fs.SubTreeFileSystem(str(tmp_path / base), fs.LocalFileSystem()) if base else fs.LocalFileSystem()
    top = "runs" if base else f"{tmp_path}/runs"
    config = RunConfig("run", top, given)

    def fit(trainer):
        return trainer.fit()

    result = fit(DataParallelTrainer(reporting, scaling_config=train.ScalingConfig(num_workers=0), run_config=config))
    name = result.checkpoint.name
    assert (result.path, result.filesystem) == (f"{top}/run", given)
    assert (result.checkpoint.path, result.checkpoint.filesystem) == (f"{top}/run/{name}", given)
    assert result.return_value == (None, f"{top}/run/{name}", given, [f"{top}/run/{name}"])
    assert given.get_file_info(result.checkpoint.path).type is fs.FileType.Directory
    assert result.checkpoint.to_dict() == {"step": 1} and f"path={top + '/run/' + name!r}" in repr(result.checkpoint)
    there = pickle.loads(pickle.dumps(result.checkpoint))
    assert there.path == result.checkpoint.path and there.filesystem == given and there.to_dict() == {"step": 1}
    again = Result.from_path(result.path, storage_filesystem=given)
    assert (again.path, again.filesystem, again.checkpoint.path) == (result.path, given, result.checkpoint.path)
    assert DataParallelTrainer.can_restore(result.path, given) and DataParallelTrainer.can_restore(result.path)
    assert not DataParallelTrainer.can_restore(f"{top}/none", given)
    restored = fit(DataParallelTrainer.restore(result.path, storage_filesystem=given))
    assert restored.path == result.path and restored.return_value[0] == result.checkpoint.path
    resumed = DataParallelTrainer(
        lambda: train.get_checkpoint().to_dict(),
        scaling_config=train.ScalingConfig(num_workers=0),
        run_config=RunConfig("other", str(tmp_path / "others")),
        resume_from_checkpoint=result.checkpoint,
    ).fit()
    assert resumed.return_value == {"step": 1} and resumed.path == f"{tmp_path}/others/other"
    assert Checkpoint(f"{tmp_path / base}/runs/run/{name}").path == f"{tmp_path / base}/runs/run/{name}", (
        "a path of the user's own"
    )


def test_a_path_in_the_home_is_shown_as_it_was_understood(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = RunConfig("mine", "~/runs", fs.LocalFileSystem())
    assert config._view.shown(f"{config.storage_path}/mine") == f"{tmp_path}/runs/mine"


def test_on_s3_the_path_has_no_scheme_and_no_key_goes_into_a_pickle() -> None:
    given = fs.SubTreeFileSystem("bucket", s3())
    config = RunConfig("mine", "prefix", given)
    sweep = _config.of_trial(_config.of_tuner(config), name="one", storage_path=f"{config.storage_path}/sweep", env={})
    for view in (config._view, sweep._view, pickle.loads(pickle.dumps(config._view))):
        assert view.shown("s3://bucket/prefix/sweep/one") == "prefix/sweep/one"
    head = submitted(config)
    checkpoint = Checkpoint._kept("s3://bucket/prefix/mine/best")
    assert (checkpoint.path, checkpoint._at) == ("prefix/mine/best", "s3://bucket/prefix/mine/best")
    assert checkpoint.filesystem is given and b"very-secret" not in pickle.dumps(checkpoint)
    payload = Payload.from_bytes(head.blobs[-1], "it")
    assert payload.part("view").path == "prefix" and not any(b"very-secret" in blob for blob in head.blobs)


# -- in a worker ----------------------------------------------------------------------------------------------------------
def test_a_worker_finds_its_run_on_a_file_system(tmp_path) -> None:
    storage = _context.TrainContext(Facts(storage_path=str(tmp_path), run_path=f"{tmp_path}/mine")).get_storage()
    assert isinstance(storage.storage_filesystem, fs.LocalFileSystem)
    assert storage.storage_fs_path == str(tmp_path) and storage.experiment_fs_path == f"{tmp_path}/mine"
    assert storage.build_checkpoint_path_from_name("best") == f"{tmp_path}/mine/best"
    assert str(storage) == str(tmp_path) and pathlib.Path(storage) == tmp_path
    assert pickle.loads(pickle.dumps(storage)).experiment_dir_name == "mine"


def test_a_worker_of_a_run_in_a_bucket_has_paths_without_the_scheme(monkeypatch) -> None:
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": "http://store:9000", "AWS_REGION": "eu-west-1"}.items():
        monkeypatch.setenv(name, value)
    storage = _context.TrainContext(Facts(storage_path="s3://bucket/a", run_path="s3://bucket/a/mine")).get_storage()
    assert storage.storage_filesystem == s3(endpoint_override="store:9000", scheme="http")
    assert (storage.storage_fs_path, storage.experiment_fs_path) == ("bucket/a", "bucket/a/mine")


def test_a_run_that_the_head_keeps_has_no_file_system_and_says_so() -> None:
    storage = _context.TrainContext(Facts(storage_path="cluster://", run_path="cluster://mine")).get_storage()
    assert storage.build_checkpoint_path_from_name("best") == "mine/best"
    with pytest.raises(RuntimeError, match="cluster://mine is kept by the head"):
        _ = storage.storage_filesystem
