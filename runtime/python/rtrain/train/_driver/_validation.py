"""Validates reported checkpoints. The worker stores a request at the head. The driver validates one checkpoint at a
time, in a separate process or by a remote call, and stores the answer. Pending requests survive restarts of both.
"""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import traceback
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from rtrain._http import Head, HeadError, NotFound, Unreachable
from rtrain.train._archive._package import Payload, dumps
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._configs import ValidationConfig, ValidationFn, ValidationTaskConfig
from rtrain.train._driver import _raised
from rtrain.train._run_directory import _views
from rtrain.train._session._validations import PENDING, answers, put
from rtrain.train._values import _metrics
from rtrain.train._values._facts import ReportedCheckpointStatus

_POLL_S = 1.0
_AFTER_KILL_S = 10.0
_ERROR_MOST = 16_000  # most bytes of an error's text


class Validator:
    """Runs pending validations in a thread of the driver. `finish` waits for all of them. It does not validate another
    user's run, since the request and the function are pickles of that user.
    """

    def __init__(self, head: Head, run: Mapping[str, Any]) -> None:
        self._head = head
        self._run_id = str(run["run_id"])
        self._run_path = str(run["run_path"])
        self._ending = threading.Event()
        self._config: ValidationConfig | None = _config_of(head, run)
        self._thread = threading.Thread(target=self._work, daemon=True, name="rtrain-validation")
        if self._config is not None:
            self._thread.start()

    def finish(self) -> None:
        """Waits until no validation is pending."""
        self._ending.set()
        if self._config is not None:
            self._thread.join()

    def _work(self) -> None:
        while True:
            ending = self._ending.is_set()
            try:
                pending = [
                    (name, answer)
                    for name, answer in sorted(answers(self._head, self._run_id).items())
                    if answer["status"] == PENDING
                ]
                for name, wish in pending:
                    put(self._head, self._run_id, name, self._answer(name, wish))
            except HeadError as error:
                print(f"rtrain: validation waits: {error.message}", file=sys.stderr)
            if ending:
                return
            self._ending.wait(_POLL_S)

    def _answer(self, name: str, wish: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the validation's answer. A failure does not affect the next validations."""
        try:
            return self._validated(name, wish)
        except Unreachable:
            raise  # the error is raised again, and the validation is tried again when the head answers
        except Exception:
            return _failed(f"the validation of {name} could not be carried out:\n{traceback.format_exc()}")

    def _validated(self, name: str, wish: Mapping[str, Any]) -> dict[str, Any]:
        assert self._config is not None
        task = self._config.task_config or ValidationTaskConfig()
        arguments = {**(task.fn_kwargs or {}), **pickle.loads(b64decode(wish["fn_kwargs"]))}
        timeout_s = wish.get("timeout_s") or task.timeout_s
        if self._config.ray_remote_kwargs:
            return _run_there(self._config, f"{self._run_path}/{name}", arguments, timeout_s)
        with tempfile.TemporaryDirectory(prefix="rtrain-validation-") as folder:
            answer = pathlib.Path(folder) / "answer.json"
            job = {
                "fn": dumps(self._config.fn, "ValidationConfig.fn"),
                "kwargs": arguments,
                "path": f"{self._run_path}/{name}",
                "view": _views.of(self._run_path),
                "sys_path": sys.path,
                "answer": str(answer),
            }
            return _run_apart(dumps(job, "the validation"), answer, timeout_s)


def _run_apart(job: bytes, answer: pathlib.Path, timeout_s: float | None) -> dict[str, Any]:
    command = [sys.executable, "-m", "rtrain.train._driver._validation"]
    package = str(pathlib.Path(__file__).resolve().parents[3])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}
    # The output is a file and not a pipe, since processes that the function has started may keep it open.
    with (answer.parent / "stderr").open("w+b") as err:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=err, env=environment)
        try:
            process.communicate(job, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_AFTER_KILL_S)
            return _too_long(timeout_s)
        err.seek(max(0, err.seek(0, os.SEEK_END) - _ERROR_MOST))
        error_text = err.read().decode("utf-8", "replace").strip()
    if process.returncode == 0 and answer.is_file():
        return _answered(answer.read_text())
    ended = f"signal {-process.returncode}" if process.returncode < 0 else f"exit status {process.returncode}"
    if process.returncode == 1 and error_text:
        return _failed(error_text)  # stderr ends with the traceback
    return _failed(
        f"{error_text}\nthe validation function ended its process ({ended}) before it gave metrics; return them".strip()
    )


def _run_there(config: ValidationConfig, path: str, arguments: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
    """Runs the validation on a node of the cluster, by `rtrain.remote`. The time limit includes the wait for a
    place.
    """
    from rtrain._remote._api import remote
    from rtrain._remote._errors import GetTimeoutError, RemoteError

    try:
        there = remote(**(config.ray_remote_kwargs or {}))(validate)
        return _answered(there.value_within(timeout_s, config.fn, path, arguments, _views.of(path)))
    except GetTimeoutError:
        return _too_long(timeout_s)
    except Unreachable:
        raise
    except (RemoteError, HeadError) as error:
        return _failed(str(error))


def _answered(metrics: str) -> dict[str, Any]:
    return {"status": ReportedCheckpointStatus.VALIDATED.value, "metrics": json.loads(metrics), "error": ""}


def _failed(text: str) -> dict[str, Any]:
    print(f"rtrain: a validation failed:\n{text}", file=sys.stderr)
    return {"status": ReportedCheckpointStatus.VALIDATION_FAILED.value, "metrics": {}, "error": text[-2000:]}


def _too_long(timeout_s: float | None) -> dict[str, Any]:
    return {"status": ReportedCheckpointStatus.VALIDATION_TIMEOUT.value, "metrics": {}, "error": f"longer than {timeout_s} s"}


def _config_of(head: Head, run: Mapping[str, Any]) -> ValidationConfig | None:
    digest = ((run.get("job") or {}).get("env") or {}).get("RTRAIN_DRIVER_SHA256")
    if not digest:
        return None
    if not _raised.is_own(head, run):
        whose = f"user {run.get('user')}, whose code it would run here"
        print(
            f"rtrain: {run['name']} is a run of {whose}; if it has validations, {run.get('user')}'s driver makes them",
            file=sys.stderr,
        )
        return None
    try:
        payload = Payload.from_bytes(head.content(f"/v1/blobs/{digest}"), f"the blob {digest}")
    except NotFound:
        return None
    config: ValidationConfig | None = payload.part("validation") if "validation" in payload.parts else None
    return config


def main() -> int:
    """Runs one validation. Reads its description from stdin, and writes the metrics to a file."""
    content = sys.stdin.buffer.read()
    job = pickle.loads(content)
    sys.path[:] = job["sys_path"]
    pathlib.Path(job["answer"]).write_text(validate(pickle.loads(job["fn"]), job["path"], job["kwargs"], job["view"]))
    return 0


def validate(fn: ValidationFn, path: str, arguments: dict[str, Any], view: _views.View | None = None) -> str:
    """Returns the metrics, encoded. view: how the run's storage_filesystem names the checkpoint."""
    _views.remember(path, view)
    metrics = fn(Checkpoint._kept(path), **arguments)
    if not isinstance(metrics, Mapping):
        raise TypeError(f"the validation function gave a {type(metrics).__name__}; it gives a dict of metrics")
    return _metrics.encode(metrics)


if __name__ == "__main__":
    sys.exit(main())
