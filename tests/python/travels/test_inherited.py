"""The parts that a run inherits from the run whose program submits it: variables, names of secrets, code."""

from __future__ import annotations

import channels
import pytest
from rtrain import _runtime_env, _where
from rtrain._remote import _call_runs
from rtrain._remote._code import WorkingDir
from rtrain._remote._options import Options
from rtrain.train import RunConfig
from rtrain.train._driver import _submission


@pytest.fixture
def in_run(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Sets the environment of a worker whose run has variables and a secret of the user, and some of rtrain's own."""
    variables = {
        "COLOUR": "red",
        "SHAPE": "round",
        "PYTHONPATH": "/driver",
        "RTRAIN_DRIVER_ID": "1",
        "RTRAIN_OWN_ENV": "PYTHONPATH,KEY",
    }
    for name, value in {**variables, "TOKEN": "secret", "KEY": "rtrain's", "RTRAIN_CODE_SHA256": "c0de"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RTRAIN_ENV_NAMES", ",".join([*variables, "GONE"]))
    monkeypatch.setenv("RTRAIN_SECRET_NAMES", "RTRAIN_REMOTE_KEY,TOKEN,KEY,DELETED")
    monkeypatch.setattr(_where, "_connection", None)
    return monkeypatch


def connected(patch: pytest.MonkeyPatch, runtime_env: dict) -> None:
    info = _where.ClusterInfo("head", local=False, runtime_env=runtime_env)
    patch.setattr(_where, "_connection", _where._Connection(info, 0, {}, None))


def test_outside_of_a_run_nothing_is_inherited(monkeypatch) -> None:
    for name in ("RTRAIN_ENV_NAMES", "RTRAIN_SECRET_NAMES", "RTRAIN_CODE_SHA256"):
        monkeypatch.delenv(name, raising=False)
    assert _runtime_env.inherited() == {} and _runtime_env.inherited_secrets({}) == [] and _runtime_env.inherited_code() == ""


def test_the_user_s_variables_are_inherited_and_none_of_rtrain_s_own(in_run) -> None:
    assert _where.runtime_env() == {"env_vars": {"COLOUR": "red", "SHAPE": "round"}}


def test_variables_merge_name_by_name_and_other_fields_are_replaced(in_run) -> None:
    connected(in_run, {"env_vars": {"COLOUR": "blue", "SIZE": "1"}, "working_dir": "/a"})
    assert _where.runtime_env() == {"env_vars": {"COLOUR": "blue", "SHAPE": "round", "SIZE": "1"}, "working_dir": "/a"}
    config = RunConfig(worker_runtime_env={"env_vars": {"SIZE": "2"}, "working_dir": "/b"})
    assert _submission.runtime_of(config) == {
        "env_vars": {"COLOUR": "blue", "SHAPE": "round", "SIZE": "2"},
        "working_dir": "/b",
    }


def test_a_remote_call_inherits_and_its_own_variables_win(in_run) -> None:
    job = Options(runtime_env={"env_vars": {"SHAPE": "flat"}}).job("name", actor=False)
    assert job["env"]["COLOUR"] == "red" and job["env"]["SHAPE"] == "flat"
    assert job["env"]["RTRAIN_OWN_ENV"] == "PYTHONPATH" and job["env"]["RTRAIN_CODE_SHA256"] == "c0de"
    assert "secret" not in str(job)


def test_a_python_path_of_the_user_is_inherited_further(in_run) -> None:
    job = Options(runtime_env={"env_vars": {"PYTHONPATH": "/mine"}}).job("name", actor=True)
    assert job["env"]["PYTHONPATH"] == "/mine" and "RTRAIN_OWN_ENV" not in job["env"]


def test_secrets_are_inherited_by_name_unless_the_job_has_them_itself(in_run) -> None:
    assert _runtime_env.inherited_secrets({"env": {}, "secrets": []}) == ["TOKEN"]
    assert _runtime_env.inherited_secrets({"env": {"TOKEN": "mine"}}) == []
    assert _runtime_env.inherited_secrets({"secrets": ["TOKEN"]}) == []


def test_a_secret_of_the_run_is_no_inherited_variable(in_run) -> None:
    assert _submission.runtime_of(RunConfig(secrets=["COLOUR"]))["env_vars"] == {"SHAPE": "round"}


class Head:
    """Takes the submissions of `CallRuns`."""

    def __init__(self) -> None:
        self.body: dict = {}

    def post(self, path: str, body: dict) -> dict:
        self.body = body
        return {"run_id": "r-1", "channel": channels.RUN}


def test_a_remote_call_s_record_has_the_names_of_secrets_and_no_value(in_run) -> None:
    call_runs = _call_runs.CallRuns.__new__(_call_runs.CallRuns)
    call_runs.head, call_runs.address, call_runs._slots = Head(), "127.0.0.1:9", {}
    call_runs._code = WorkingDir(call_runs.head)
    call_runs._lock, call_runs._wake = _call_runs.threading.Lock(), _call_runs.threading.Event()
    call_runs.submit(_call_runs.Slot("f()", actor=False, job=Options().job("f", actor=False), call_runs=call_runs))
    assert call_runs.head.body["job"]["secrets"] == ["RTRAIN_REMOTE_KEY", "TOKEN"] and call_runs.head.body["channel"] is True
    assert (
        call_runs.head.body["secrets"]["TOKEN"] == "secret"
        and call_runs.head.body["code_sha256"] == ""
        and "secret" not in call_runs.head.body["job"]["env"].values()
    )


def test_a_process_of_a_run_takes_its_run_s_code_where_it_has_no_folder_of_its_own(in_run, tmp_path, capsys) -> None:
    in_run.setattr(_submission._package, "script_directory", lambda: None)
    project = _submission.project_of(RunConfig(), None, "c0de")
    assert (project.directory, project.digest, project.content) == (None, "c0de", b"")
    assert _submission.project_of(RunConfig(), ("kept", b"archive"), "c0de").digest == "kept"
    own = _submission.project_of(RunConfig(worker_runtime_env={"working_dir": str(tmp_path)}), None, "c0de")
    assert own.directory == tmp_path and own.digest not in ("", "c0de")
