"""Packs a trainer's run, submits or joins it, and follows it to its end."""

from __future__ import annotations

import os
import pathlib
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtrain import _runtime_env, _where
from rtrain._http import SESSION, Conflict, Head, HeadError, NotFound, Unplaceable, part
from rtrain.train._archive import _package, _packed
from rtrain.train._configs import FailureConfig, RunConfig
from rtrain.train._driver import _missing_variables, _shown_config
from rtrain.train._driver._follower import TERMINAL, Driver
from rtrain.train._driver._interrupts import Detached
from rtrain.train._driver._origin import same_storage
from rtrain.train._driver._outcome import result_of
from rtrain.train._driver._restore import differences
from rtrain.train._driver._training import Training
from rtrain.train._driver._validation import Validator
from rtrain.train._result import Result
from rtrain.train._run_context import TrainRunContext, checked, end_reported
from rtrain.train._run_directory import _elsewhere, _filesystems, _views
from rtrain.train._session import _reported
from rtrain.train._values import _names
from rtrain.train._values._errors import ControllerError, InsufficientClusterResourcesError
from rtrain.train._values._facts import Facts

WORKER = ["python", "-m", "rtrain.train._worker_main"]
HEAD_AWAY_S = 600.0  # seconds for which a driver waits for a head that does not answer; the run continues meanwhile
_TAKEN_WITHIN_S = 2.0  # seconds for which a run is looked for whose submission got no answer


def current_head() -> Head:
    _where.ensure()
    head = Head.current()
    _package.check_cluster(str(head.get("/healthz")["version"]))
    return head


def say(text: str) -> None:
    print(f"rtrain: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Project:
    """The code that is uploaded: its directory, the hash and the content of its archive, and the hash of its Python
    files. The directory is None for the code of an earlier run, and if there is no code.
    """

    directory: pathlib.Path | None
    digest: str = ""
    content: bytes = b""
    sources: str = ""


def runtime_of(config: RunConfig) -> dict[str, Any]:
    """Returns `init(runtime_env=)`, overridden by the run's own settings. If this process is part of a run, variables
    with that run's secrets are left out.
    """
    runtime = _where.runtime_env()
    if config.secrets:
        runtime["env_vars"] = {
            name: value for name, value in _runtime_env.env_vars(runtime).items() if name not in config.secrets
        }
    return _runtime_env.merged(runtime, config.worker_runtime_env)


def project_of(config: RunConfig, kept: tuple[str, bytes] | None = None, inherited: str = "") -> Project:
    """Packs the `working_dir` of the run, or the driver's folder. A restored trainer has its own code. A process that
    is part of a run packs nothing, but uses that run's code, whose hash is `inherited`.
    """
    directory: pathlib.Path | None = None
    if given := runtime_of(config).get("working_dir"):
        directory = pathlib.Path(str(given)).expanduser().resolve()
    elif kept is None:
        directory = _package.script_directory()
    if directory is None:
        digest, content = kept or (inherited, b"")
        return Project(None, digest, content, digest)
    archive = _packed.packed(directory, named=bool(given))
    return Project(directory, archive.digest, archive.content, archive.sources)


class Submission:
    """One `fit()` of a trainer. `start` submits the run and does not wait for its end. Several runs of one program
    share their `project`.
    """

    def __init__(self, trainer: Training, head: Head, project: Project | None = None) -> None:
        self.trainer = trainer
        self.head = head
        # a sweep's config has no name yet, nor has one that an earlier version has pickled
        if trainer.run_config.name is None:
            trainer.run_config.take_name(_names.run_name(None))
        self.name = _names.run_name(trainer.run_config.name)
        self.callbacks = checked(trainer.run_config.callbacks)
        # Local mode has no head that stores code, so it uses its own.
        inherited = _runtime_env.inherited_code() if head is not None else ""
        self.project = project or project_of(trainer.run_config, trainer._code, inherited)
        self.resume_blob = ""
        self.warnings: list[str] = []  # warnings with which the head has answered the submission
        self.config = b""  # pickled train_loop_config
        self.before: dict[str, Any] | None = None  # the newest run of this name, if it has ended
        self.asked = ""  # value of RTRAIN_DRIVER_ID for the run, set when the request is sent
        self.run_id = ""  # id of the run, set when the head has answered
        self.place = _filesystems.Place("")

    def start(self) -> dict[str, Any]:
        """Submits the run, or joins this program's run if that is alive. Returns the run."""
        job, payload = self._job()
        live = self._live_run(job)
        self.trainer.run_config._fits += 1
        if live is not None:
            return self._known(live)
        if job["name"] != self.name:
            job["name"] = self.name
            payload.parts["trainer"] = self._dumps(self._rest(), "the trainer")
        # Parsing the program's modules takes time. It is done before the request, since Ctrl-C has to stop the run after it.
        # The hint is printed at once: it is made only once, and would be lost if the head refused the request.
        if not _where.has_own_cluster() and (hint := _missing_variables.hint(job)):
            say(f"{self.name}: {hint}")
        run = self._submit(job, payload.to_bytes())
        self.warnings = [str(warning) for warning in run.get("warnings") or []]
        return self._known(run)

    def _known(self, run: dict[str, Any]) -> dict[str, Any]:
        """Records the path by which this process reads the run's checkpoints. Returns the run."""
        _views.remember(run["run_path"], self.trainer.run_config._view)
        if (elsewhere := self.trainer.run_config.elsewhere) is not None:
            _elsewhere.remember(run["run_path"], elsewhere)
        return run

    def run(self) -> Result:
        try:
            return self._run()
        except Detached:
            raise
        except KeyboardInterrupt:
            self._stop_submitted()
            raise

    def _run(self) -> Result:
        try:
            run = self.start()
        except Unplaceable as error:
            raise ControllerError(InsufficientClusterResourcesError(str(error)), f"Training failed: {error}") from error
        for warning in self.warnings:
            say(f"{self.name}: {warning}")
        context = TrainRunContext(
            run["run_id"],
            self.name,
            run["run_path"],
            self.trainer.run_config,
            self.trainer.scaling_config,
            self.trainer.train_loop_config,
        )
        try:
            named = getattr(self.trainer.backend_config, "backend", None)
            return finished(self.head, run, self.callbacks, context, str(named or ""))
        finally:
            self._sweep(run)

    def _sweep(self, run: dict[str, Any]) -> None:
        """Removes checkpoint files that lie outside of rtrain's storage and that an ended run no longer keeps, such as
        the checkpoint from which it resumed. Only the driver can remove these files.
        """
        elsewhere = self.trainer.run_config.elsewhere
        if elsewhere is None:
            return
        try:
            ended = self.head.get(f"/v1/runs/{part(run['run_id'])}")
            facts = Facts(
                experiment_name=self.name, run_id=run["run_id"], run_path=run["run_path"], attempt=int(ended["attempt"]) + 1
            )
            sweeper = _elsewhere.Sweeper(elsewhere, facts)
            while ended["state"] in TERMINAL and _reported.sweep(sweeper, facts, HEAD_AWAY_S):
                pass
        # The user's file system may raise any exception; that does not change the run's result.
        except Exception as error:
            say(f"{self.name}: files of checkpoints that it keeps no more stay on storage_filesystem: {error}")

    # -- the request -------------------------------------------------------------------------------------------------
    def _job(self) -> tuple[dict[str, Any], _package.Payload]:
        trainer, config = self.trainer, self.trainer.run_config
        runtime = runtime_of(config)
        self._check_elsewhere()
        payload = self._payload()
        self.config = payload.parts["config"]
        identity = _package.fingerprint(trainer.train_loop_per_worker, self.project.sources.encode(), payload.parts["config"])
        failure = config.failure_config or FailureConfig()
        job: dict[str, Any] = {
            "version": 1,
            "name": self.name,
            "entrypoint": WORKER,
            "python": {"interpreter": os.environ.get("RTRAIN_PYTHON") or sys.executable},
            "scaling": trainer.scaling_config.job(),
            "failure": {"max_failures": failure.max_failures, "fail_fast": bool(failure.fail_fast)},
            "env": {
                **_names.propagated(),
                **_shown_config.shown_config(trainer.train_loop_config),
                **_runtime_env.env_vars(runtime),
                **_texts(config.env),
                "RTRAIN_DRIVER_ID": identity,
            },
            "labels": dict(config.labels),
        }
        if config.checkpoint_config is not None:
            job["checkpoint"] = config.checkpoint_config.job()
        storage_path = self._storage_path()
        if storage_path is not None:
            job["storage_path"] = storage_path
            self._add_place(job)
        if config.tracking:
            job["tracking"] = {name: bool(enabled) for name, enabled in config.tracking.items()}
        if config.secrets:
            job["secrets"] = [*job.get("secrets", []), *config.secrets]
        if inherited := _runtime_env.inherited_secrets(job):
            job["secrets"] = [*job.get("secrets", []), *inherited]
        if config.queue is not None:
            job["queue"] = config.queue
        if config.priority is not None:
            job["priority"] = config.priority
        backend = getattr(trainer.backend_config, "backend", None)
        timeout_s = getattr(trainer.backend_config, "timeout_s", None)
        if timeout_s:
            job["backend"] = {"timeout_s": int(timeout_s)}
        if backend in ("nccl", "gloo", "tensorflow"):
            job.setdefault("backend", {})["name"] = backend
        return job, payload

    def _add_place(self, job: dict[str, Any]) -> None:
        """Adds the environment and secrets that `storage_filesystem` needs to the job."""
        config = self.trainer.run_config
        self.place = config.place
        if both := sorted(self.place.environment.keys() & {*_texts(config.env), *config.secrets}):
            raise ValueError(
                f"RunConfig(storage_filesystem=) and its env or secrets both give {', '.join(both)}; leave one of them out"
            )
        _filesystems.remember(self.place)
        explicit = _runtime_env.env_vars(config.worker_runtime_env or {})
        for name in _runtime_env.env_vars(_runtime_env.inherited()):
            if name in self.place.keys and name not in explicit:
                job["env"].pop(name, None)
        job["env"].update(self.place.variables)
        if self.place.keys:
            job["secrets"] = list(self.place.keys)
        if self.place.environment:
            job["env"][_runtime_env.OWN_ENV] = ",".join(self.place.environment)

    def _storage_path(self) -> str | None:
        """Returns the run's storage path. Returns None for the head's own storage, even if the run was restored from
        there by a path.
        """
        config, origin = self.trainer.run_config, self.trainer._origin
        if config.runs_path is None or (origin is not None and origin.meant_by(config) and origin.is_on(self.head)):
            return None
        return config.runs_path

    def _payload(self) -> _package.Payload:
        trainer, config, origin = self.trainer, self.trainer.run_config, self.trainer._origin
        parts = {
            "loop": self._dumps(trainer.train_loop_per_worker, "train_loop_per_worker"),
            "config": self._dumps(trainer._kept.get("config", trainer.train_loop_config), "train_loop_config"),
            "data_config": self._dumps(trainer.dataset_config, "dataset_config"),
            "torch_config": self._dumps(trainer.backend_config, "torch_config"),
            "trainer": self._dumps(self._rest(), "the trainer"),
        }
        if datasets := trainer._kept.get("datasets", trainer.datasets):
            parts["datasets"] = self._dumps(datasets, "datasets")
        if config.stop is not None:
            parts["stop"] = self._dumps(config.stop, "RunConfig.stop")
        if config.elsewhere is not None:
            parts["elsewhere"] = self._dumps(config.elsewhere, "storage_filesystem")
        if config._view is not None:
            parts["view"] = self._dumps(config._view, "storage_filesystem")
        if trainer.validation_config is not None:
            parts["validation"] = self._dumps(trainer.validation_config, "validation_config")
        header = {
            **_package.header(),
            "code": self.project.digest,
            "torch": trainer._torch,
            "metadata": trainer.metadata,
            "log_level": config.logging_config.level if config.logging_config else None,
            "log_to_file": config.log_to_file or None,
            "validation": trainer.validation_config is not None,
            "resume_from": self._resume_from(),
            "goes_on_in": origin.path if origin is not None and origin.meant_by(config) and origin.newest() else "",
        }
        return _package.Payload(header, parts)

    def _check_elsewhere(self) -> None:
        """Raises ValueError if a setting needs processes other than the workers to read the checkpoints' files."""
        elsewhere = self.trainer.run_config.elsewhere
        if elsewhere is None:
            return
        if _filesystems.kind_of(elsewhere.filesystem) == "memory":
            raise ValueError(
                "storage_filesystem is the memory of this process, and a run has processes of its own: num_workers=0 can use it"
            )
        if self.trainer.validation_config is not None:
            raise ValueError(
                "validation_config reads checkpoints in processes of their own, which no storage_filesystem is handed to: give "
                "storage_path as a path that the nodes mount, or as s3://bucket/prefix"
            )

    def _resume_from(self) -> dict[str, str] | None:
        """Returns the committed checkpoint to resume from, as fields of the request. A directory that exists only on
        this machine is uploaded as a blob.
        """
        given = self.trainer.resume_from_checkpoint
        if given is None:
            return None
        if given._blob and self.head.exists(f"/v1/blobs/{given._blob}"):
            self.resume_blob = given._blob
            return {"path": given._at, "blob": given._blob}
        folder = pathlib.Path(given._at)
        if (
            given._filesystem is None
            and _elsewhere.of(given._at) is None
            and (not folder.is_dir() or (folder / ".manifest.json").is_file())
        ):
            return {"path": given._at}
        with given.as_directory() as directory:
            self.resume_blob = self.head.upload_blob(_package.tar_of(pathlib.Path(directory)))
        return {"path": given._at, "blob": self.resume_blob}

    def _dumps(self, value: object, what: str) -> bytes:
        return _package.dumps(value, what, self.project.directory)

    def _rest(self) -> dict[str, Any]:
        """Returns the parts that `restore` needs beside the loop, its config and the datasets. Callbacks are not
        stored.
        """
        import copy

        config = copy.copy(self.trainer.run_config)
        config.callbacks = []
        config.name = str(self.name)
        config.stop = None
        config.storage_path, config.records_path = config.runs_path, None
        config.storage_filesystem = None  # the object may hold keys, and storage_path contains what nodes need of it
        return {"class": type(self.trainer), "scaling_config": self.trainer.scaling_config, "run_config": config}

    # -- the run ------------------------------------------------------------------------------------------------------
    def _live_run(self, job: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the live run of this name; None if there is none. A run that this driver submitted, with the same
        storage path, is joined. Any other one is a Conflict. If the config has no explicit name, the first `fit()`
        takes the next free name, so that it never resumes another program's run.
        """
        config = self.trainer.run_config
        # The name identifies this program's config in all attempts, so a run of that name is a run of this config.
        unnamed = not config.is_named and config._fits == 0
        while (run := self._newest_run()) is not None:
            same_path = same_storage(run["storage_path"], job.get("storage_path"))
            by_this_driver = same_path and _driver_of(run) == job["env"]["RTRAIN_DRIVER_ID"]
            if unnamed and not by_this_driver:
                self.name = _names.run_name(None)
                config.take_name(self.name)
                continue
            if run["state"] in TERMINAL and not (unnamed and run["state"] == "SUCCEEDED"):
                self.before = run
                return None
            if not by_this_driver:
                raise self._conflict(run, same_path=same_path)
            say(f"run {self.name} is {run['state']}: this driver joins it")
            return run
        return None

    def _newest_run(self) -> dict[str, Any] | None:
        """Returns the newest run of this name; None if there is none."""
        try:
            run: dict[str, Any] = self.head.get(f"/v1/runs/{part(self.name)}")
        except NotFound:
            return None
        return run if run["name"] == self.name else None

    def _conflict(self, run: dict[str, Any], *, same_path: bool) -> Conflict:
        unlike = "training function or config" if same_path else f"storage path ({run['storage_path']})"
        return Conflict(
            "conflict",
            f"a run named {self.name} of {run['user']} is {run['state']}, with another {unlike}",
            f"rtrain.train.attach({self.name!r}) waits for it, `rtrain stop {self.name}` ends it, or take another name",
        )

    def _submit(self, job: dict[str, Any], driver_pkl: bytes) -> dict[str, Any]:
        job["env"]["RTRAIN_DRIVER_SHA256"] = self.head.upload_blob(driver_pkl)
        if self.resume_blob:  # a blob that the job's env names is stored as long as the run
            job["env"]["RTRAIN_RESUME_SHA256"] = self.resume_blob
        if self.project.content:
            self.head.upload_blob(self.project.content)
        elif self.project.digest and not self.head.exists(f"/v1/blobs/{self.project.digest}"):
            say(f"{self.name}: the code of the run that this process belongs to is not on this cluster and does not travel along")
            self.project = Project(None)
        body = {"job": job, "key": str(uuid.uuid4()), "code_sha256": self.project.digest, "resume": True, "session": SESSION}
        body["secrets"] = _secret_values(job.get("secrets", []), self.place.keys)
        self.asked = job["env"]["RTRAIN_DRIVER_ID"]
        run: dict[str, Any] = self.head.post("/v1/runs", body)
        self.run_id = str(run["run_id"])
        if self.before is not None and self.before["run_path"] == run["run_path"]:
            changed = differences(self.head, self.before, run, self.config)
            end = f"{self.before['state']}, {self.before['checkpoints']} checkpoints"
            say(f"{self.name} goes on where it ended ({end})" + "".join(f"\n  {line}" for line in changed))
        return run

    def _stop_submitted(self) -> None:
        """Stops the run after a Ctrl-C that was pressed while the run was being submitted."""
        if not self.asked:
            return
        if _names.setting("ON_INTERRUPT", "stop") == "detach":
            say(f"detached; {self.name} goes on if the head has taken it. rtrain.train.attach({self.name!r}) comes back")
            return
        try:
            run_id = self.run_id or self._submitted_id()
            if not run_id:
                say(f"{self.name} was not submitted")
            elif self.head.post(f"/v1/runs/{part(run_id)}/stop")["state"] not in TERMINAL:
                say(f"{self.name} is being stopped: Ctrl-C came when it was submitted")
        except HeadError as error:
            say(
                f"{self.name} may have been submitted and could not be stopped: {error.message}; `rtrain stop {self.name}` ends it"
            )

    def _submitted_id(self) -> str:
        """Returns the id of the run whose submission got no answer; empty if the head does not have it. The head may
        still be processing the request.
        """
        deadline = time.monotonic() + _TAKEN_WITHIN_S
        while time.monotonic() < deadline:
            run = self._newest_run()
            if run is not None and run["state"] not in TERMINAL and _driver_of(run) == self.asked:
                return str(run["run_id"])
            time.sleep(0.1)
        return ""


def _driver_of(run: dict[str, Any]) -> str:
    return str(((run.get("job") or {}).get("env") or {}).get("RTRAIN_DRIVER_ID"))


def _secret_values(names: list[str], given: Mapping[str, str]) -> dict[str, str]:
    """Returns the values of the secrets. They are the given ones, or values of this process's environment."""
    if missing := [name for name in names if name not in given and name not in os.environ]:
        raise ValueError(f"RunConfig(secrets=) names {', '.join(missing)}: not set in this process's environment; export it here")
    return {name: given[name] if name in given else os.environ[name] for name in names}


def _texts(values: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in (values or {}).items()}


def finished(head: Head, run: dict[str, Any], callbacks: list[Any], context: TrainRunContext, backend: str = "") -> Result:
    """Follows the run to its end. Returns its Result, or raises the error of its failure. `backend`: the backend of the
    process group that the trainer's config names; empty: none.
    """
    head = Head(head.place, patience_s=HEAD_AWAY_S)
    driver = Driver(head, run["run_id"], run["name"], callbacks, context, prints=_where.shows_prints(), backend=backend)
    with end_reported(callbacks, context):
        with driver.interrupts.watched():
            driver.tell_begin()
            validator = Validator(head, run)
            ended = driver.follow()
        validator.finish()
    result = result_of(head, ended)
    if result.error is not None:
        raise result.error
    return result
