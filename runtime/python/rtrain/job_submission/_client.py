"""`JobSubmissionClient`: a job is a run whose one worker is the given command."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import pathlib
import secrets
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rtrain import _runtime_env
from rtrain._http import Conflict, Head, HeadError, part
from rtrain._lazy import public_in
from rtrain._settings import place_at
from rtrain.train._archive._packed import packed
from rtrain.util.state._lists import is_job, job_of

_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
_LINES_MOST = 1000  # lines of a followed log that wait to be taken


class JobStatus(str, enum.Enum):
    """The state of a job."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    def __str__(self) -> str:
        return str(self.value)

    def is_terminal(self) -> bool:
        """Returns whether the job has ended."""
        return self.value in _ENDED


class JobType(str, enum.Enum):
    """How a job came to the cluster."""

    SUBMISSION = "SUBMISSION"
    DRIVER = "DRIVER"


@dataclass
class JobDetails:
    """A job. Times are milliseconds since 1970."""

    type: JobType
    submission_id: str
    job_id: str
    status: JobStatus
    entrypoint: str
    message: str
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    runtime_env: dict[str, Any] = field(default_factory=dict)
    driver_node_id: str | None = None
    driver_exit_code: int | None = None


JobInfo = JobDetails


class JobSubmissionClient:
    """Submits programs and follows them.

    address: "host:port" of the head, also as "http://host:port"; left out, the current context's. Token and CA come from a
    context with that address, or from RTRAIN_TOKEN and RTRAIN_CA. metadata: of all jobs of this client.

    Raises ConnectionError if no head answers there.
    """

    def __init__(
        self,
        address: str | None = None,
        create_cluster_if_needed: bool = False,
        cookies: Mapping[str, Any] | None = None,
        metadata: Mapping[str, str] | None = None,
        headers: Mapping[str, Any] | None = None,
        verify: str | bool | None = True,
    ) -> None:
        if create_cluster_if_needed:
            raise ValueError("create_cluster_if_needed cannot be carried out: rtrain up starts a cluster on this machine")
        if cookies or headers:
            raise ValueError("cookies and headers cannot be carried out: the token of the context identifies its user")
        if verify is not True and verify is not None:
            raise ValueError("verify cannot be carried out: the head's certificate is compared with the context's CA")
        self._metadata = dict(metadata or {})
        try:
            self._head = Head.current() if address is None else Head(place_at(address))
            self._version = str(self._head.get("/v1/status")["version"])
        except (HeadError, ValueError) as error:
            raise ConnectionError(f"JobSubmissionClient({address!r}): {error}") from error

    def get_version(self) -> str:
        """Returns the version of the head."""
        return self._version

    def get_address(self) -> str:
        """Returns the address of the head, "host:port"."""
        return self._head.place.address

    def submit_job(
        self,
        *,
        entrypoint: str,
        job_id: str | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        metadata: Mapping[str, str] | None = None,
        submission_id: str | None = None,
        entrypoint_num_cpus: float | None = None,
        entrypoint_num_gpus: float | None = None,
        entrypoint_memory: int | None = None,
        entrypoint_resources: Mapping[str, float] | None = None,
        entrypoint_label_selector: Mapping[str, str] | None = None,
    ) -> str:
        """Submits a command, which `sh -c` reads, and returns its submission id: the name of the run.

        runtime_env: `{"env_vars": {...}, "working_dir": path}`. The command starts in a copy of working_dir. Without resources it
        is a driver, which takes no CPU. metadata: labels of the run. submission_id: raises ValueError if a run has that name.
        """
        environment = _runtime_env.checked(runtime_env, "submit_job(runtime_env=)")
        name = submission_id or job_id or f"rtrain-submit-{secrets.token_hex(4)}"
        amounts: dict[str, Any] = {"CPU": entrypoint_num_cpus or 0, **(entrypoint_resources or {})}
        if entrypoint_num_gpus:
            amounts["GPU"] = entrypoint_num_gpus
        if entrypoint_memory:
            amounts["memory"] = int(entrypoint_memory)
        scaling: dict[str, Any] = {"workers": 1, "use_gpu": bool(entrypoint_num_gpus), "resources_per_worker": amounts}
        if entrypoint_label_selector:
            scaling["label_selector"] = dict(entrypoint_label_selector)
        job = {
            "version": 1,
            "name": name,
            "entrypoint": entrypoint,
            "driver": amounts == {"CPU": 0} and not entrypoint_label_selector,
            "env": _runtime_env.env_vars(environment),
            "scaling": scaling,
            "labels": {**self._metadata, **(metadata or {})},
        }
        body = {"job": job, "key": secrets.token_hex(16), "code_sha256": self._code(environment), "secrets": {}}
        try:
            self._head.post("/v1/runs", body)
        except Conflict as error:
            raise ValueError(f"submit_job(submission_id={name!r}): {error.message}; give another submission_id") from error
        return name

    def get_job_status(self, job_id: str) -> JobStatus:
        """Returns the state of the job. Raises NotFound, a RuntimeError, if there is none."""
        return self.get_job_info(job_id).status

    def get_job_info(self, job_id: str) -> JobDetails:
        """Returns the job with this submission id or id of a run. Raises NotFound, a RuntimeError, if there is none."""
        run = self._head.get(f"/v1/runs/{part(job_id)}")
        details = self._details(run)
        attempts = self._head.items(f"/v1/runs/{part(run['run_id'])}/attempts")
        workers = attempts[-1]["workers"] if attempts else []
        details.driver_exit_code = next((worker["exit_code"] for worker in workers), None)
        return details

    def list_jobs(self) -> list[JobDetails]:
        """Returns all runs that are no remote calls and that no other run has submitted, the newest first."""
        runs = self._head.items("/v1/runs", {"all": "true", "limit": 1000})
        return [self._details(run) for run in runs if is_job(run)]

    def get_job_logs(self, job_id: str) -> str:
        """Returns all that the job has written."""
        content = self._head.content(f"/v1/runs/{part(job_id)}/logs")
        return "".join(f"{json.loads(line)['line']}\n" for line in content.splitlines())

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        """Yields what the job writes, in pieces of whole lines, until it has ended."""
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[str | BaseException | None] = asyncio.Queue(_LINES_MOST)
        over = threading.Event()

        def put(item: str | BaseException | None) -> None:
            if not over.is_set():
                with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                    asyncio.run_coroutine_threadsafe(lines.put(item), loop).result()

        def read() -> None:
            try:
                for line in self._followed(job_id, over):
                    put(line)
            except BaseException as error:
                put(error)
            put(None)

        threading.Thread(target=read, daemon=True, name="rtrain job logs").start()
        try:
            while (item := await lines.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            over.set()
            while not lines.empty():
                lines.get_nowait()  # lets the thread go on to its end

    def stop_job(self, job_id: str) -> bool:
        """Begins to stop the job. Returns false if it has ended already."""
        run = self._head.get(f"/v1/runs/{part(job_id)}")
        if run["state"] in _ENDED:
            return False
        self._head.post(f"/v1/runs/{part(run['run_id'])}/stop")
        return True

    def delete_job(self, job_id: str) -> bool:
        """Removes the record of a job that has ended. Raises RuntimeError for one that has not."""
        run = self._head.get(f"/v1/runs/{part(job_id)}")
        if run["state"] not in _ENDED:
            raise RuntimeError(f"job {job_id} is {run['state']}: stop_job it before it is deleted")
        self._head.delete(f"/v1/runs/{part(run['run_id'])}")
        return True

    def _followed(self, job_id: str, over: threading.Event) -> Iterator[str]:
        route = f"/v1/runs/{part(job_id)}/logs"
        for event in self._head.follow(route, {}, until=over.is_set):
            if not event.name:
                yield f"{event.data['line']}\n"

    def _code(self, environment: Mapping[str, Any]) -> str:
        """Uploads the archive of working_dir. Returns its hash; "" without one."""
        if not environment.get("working_dir"):
            return ""
        archive = packed(pathlib.Path(str(environment["working_dir"])).expanduser().resolve(), named=True)
        self._head.upload_blob(archive.content)
        return str(archive.digest)

    def _details(self, run: dict[str, Any]) -> JobDetails:
        state = job_of(run, detail=False)
        job = run.get("job") or {}
        return JobDetails(
            type=JobType.SUBMISSION,
            submission_id=state.submission_id,
            job_id=state.job_id,
            status=JobStatus(state.status),
            entrypoint=state.entrypoint,
            message=state.message,
            start_time=state.start_time,
            end_time=state.end_time,
            metadata=state.metadata,
            runtime_env={"env_vars": dict(job["env"])} if job.get("env") else {},
            driver_node_id=next(iter(run["nodes"]), None),
        )


public_in("rtrain.job_submission", JobDetails, JobStatus, JobSubmissionClient, JobType)
