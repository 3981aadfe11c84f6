"""The choice of the run that a `fit()` submits, joins or resumes, by the existing runs of the head."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rtrain._http import Conflict, NotFound
from rtrain.train import DataParallelTrainer, RunConfig
from rtrain.train._archive._package import Payload
from rtrain.train._driver._follower import automatic_backend, worker_failures
from rtrain.train._driver._submission import Project, Submission
from rtrain.train._values import _names
from rtrain.train._values._errors import InsufficientClusterResourcesError, controller_exception


class FakeHead:
    """A head that stores submitted runs by name."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.blobs: list[bytes] = []

    def get(self, path: str) -> dict[str, Any]:
        name = path.removeprefix("/v1/runs/")
        if name not in self.runs:
            raise NotFound("not_found", f"there is no run {name}")
        return self.runs[name]

    def upload_blob(self, content: bytes) -> str:
        self.blobs.append(content)
        return "0" * 64

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        job, path = body["job"], f"/storage/{len(self.blobs)}"
        run = {"run_id": f"r-{len(self.runs)}", "name": job["name"], "state": "RUNNING", "user": "me", "job": job}
        run |= {"storage_path": "", "run_path": path}
        self.runs[job["name"]] = run
        return run


@pytest.fixture
def attempt(monkeypatch, tmp_path):
    """Begins another attempt of the driver, on another node."""
    monkeypatch.setenv("RTRAIN_RUN_ID", "r-7")
    monkeypatch.delenv("RANK", raising=False)

    def begin() -> None:
        scratch = tmp_path / f"scratch-{len(list(tmp_path.iterdir()))}"
        scratch.mkdir()
        monkeypatch.setenv("RTRAIN_SCRATCH_DIR", str(scratch))
        monkeypatch.setattr(_names, "_fits", 0)

    begin()
    return begin


def submission(head: FakeHead, config: dict[str, Any], name: str | None = None) -> Submission:
    trainer = DataParallelTrainer(lambda given: None, train_loop_config=config, run_config=RunConfig(name=name))
    return Submission(trainer, head, Project(None))


@pytest.mark.parametrize("state", ["RUNNING", "SUCCEEDED", "FAILED"])
def test_a_fit_without_a_name_has_nothing_of_another_training_under_its_number(attempt, state) -> None:
    head = FakeHead()
    for what in ("first", "second"):
        submission(head, {"what": what}).start()
    head.runs["rtrain_run-r-7-1"]["state"] = head.runs["rtrain_run-r-7-2"]["state"] = state
    attempt()  # skips the first run, since it has ended
    again = submission(head, {"what": "second"})
    run = again.start()
    assert run["name"] == again.name == "rtrain_run-r-7-2"
    other = submission(head, {"what": "third"})
    assert other.start()["name"] == other.name == "rtrain_run-r-7-3"
    assert other.before is None
    assert Payload.from_bytes(head.blobs[-1], "it").part("trainer")["run_config"].name == other.name
    assert head.runs["rtrain_run-r-7-1"]["job"]["env"]["RTRAIN_DRIVER_ID"] != run["job"]["env"]["RTRAIN_DRIVER_ID"]


def test_a_fit_with_a_name_goes_on_from_its_last_run_and_never_joins_another_s(attempt) -> None:
    head = FakeHead()
    submission(head, {"what": "first"}, "mine").start()
    with pytest.raises(Conflict, match="with another training function or config"):
        submission(head, {"what": "second"}, "mine").start()
    head.runs["mine"]["state"] = "SUCCEEDED"
    again = submission(head, {"what": "second"}, "mine")
    assert again.start()["state"] == "RUNNING"
    assert again.before is not None and again.before["state"] == "SUCCEEDED"


def test_every_rank_that_failed_by_itself_is_named_and_those_that_were_ended_with_it_are_not():
    def worker(rank, cause, *, exit_code=None, signal=None, ended=False):
        state = {"rank": rank, "state": "EXITED", "cause": cause, "exit_code": exit_code, "signal": signal}
        return {**state, "stopped_with_attempt": ended}

    attempt = {
        "workers": [
            worker(0, "exit code 1: ValueError: x", exit_code=1),
            worker(1, "killed by signal 15, stopped with its attempt", signal=15, ended=True),
            worker(2, "killed by signal 11", signal=11),
            worker(3, "exit code 0", exit_code=0),
            worker(4, "every rank ended with 0"),
        ],
        "first_failure": {"rank": 2, "cause": "killed by signal 11"},
    }
    assert worker_failures(attempt) == {0: "ValueError: x", 2: "killed by signal 11"}


def test_what_no_node_could_hold_is_known_by_the_kind_of_the_reason_not_by_its_words():
    for kind in ("queue_time", "never_fits"):
        assert isinstance(controller_exception("any words", kind, started=False), InsufficientClusterResourcesError)
    assert type(controller_exception("limits.queue_time", "fail_fast", started=True)) is RuntimeError


@pytest.mark.parametrize(
    "gpus, uuids, backend",
    [([], [], "gloo"), ([1], ["GPU-a", None], "gloo"), ([0], ["FAKE-0"], "gloo"), ([1], ["", "GPU-b"], "nccl")],
)
def test_the_backend_is_nccl_where_a_rank_has_a_gpu_that_exists(gpus, uuids, backend) -> None:
    devices = [{"index": index, "uuid": uuid} for index, uuid in enumerate(uuids)]
    nodes = {"n": {"gpu_devices": devices}}
    assert automatic_backend({"node": "n", "gpus": gpus}, nodes).split()[0] == backend
    assert automatic_backend({"node": "gone", "gpus": gpus}, nodes) == "gloo"


def test_the_config_is_shown_in_env_without_objects_and_left_out_when_it_is_long(attempt) -> None:
    head = FakeHead()
    submission(head, {"lr": 0.1, "layers": [8, 4], "net": object(), "nan": float("nan"), "__own": 1}, "shown").start()
    shown = json.loads(head.runs["shown"]["job"]["env"]["RTRAIN_SHOWN_CONFIG"])
    assert shown == {"lr": 0.1, "layers": [8, 4], "net": "(object)", "nan": "nan"}
    for name, config in (("long", {str(key): key for key in range(2_000)}), ("none", {})):
        submission(head, config, name).start()
        assert "RTRAIN_SHOWN_CONFIG" not in head.runs[name]["job"]["env"]
