"""Writes a run's directory on this machine in the format of a cluster's agents (storage/checkpoint in the sources).
`restore`, `Result.from_path` and a cluster can use it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rtrain import _files
from rtrain.train._run_directory import _claims, _records
from rtrain.train._run_directory._claims import Claim
from rtrain.train._run_directory._records import FORMAT, header_of
from rtrain.train._values import _checkpoint_names
from rtrain.train._values._checkpoint_names import MANIFEST

_PIECE = 4 << 20


@dataclass(frozen=True)
class Found:
    """A committed checkpoint: the name of its directory, and its manifest."""

    name: str
    manifest: dict[str, Any]

    @property
    def place(self) -> tuple[int, int]:
        return int(self.manifest["attempt"]), int(self.manifest["report"])

    @property
    def metrics(self) -> Any:
        kept = self.manifest["metrics"]
        return json.loads(kept) if isinstance(kept, str) else kept


@dataclass
class Directory:
    path: pathlib.Path
    name: str
    run_id: str = ""
    attempt: int = 0
    # The id under which other files of the run are written: the run_id, or a new id after each attempt that succeeded,
    # so that later attempts do not replace its data.
    writes_as: str = ""
    start: Found | None = None
    reports_before: int = 0
    format: int = FORMAT
    warnings: list[str] = field(default_factory=list)
    _journal: Any = None
    _lock: Any = None

    # -- beginning ----------------------------------------------------------------------------------------------------
    def open(self, job: Mapping[str, Any], world_size: int, nodes: list[str]) -> None:
        """Makes the directory, or opens an existing one, and claims the next attempt. Raises RuntimeError if another
        process trains under this name.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = (self.path / ".local-lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RuntimeError(
                f"another process trains run {self.name} in {self.path} now; wait for it, or give RunConfig(name=) another name"
            ) from error
        header: dict[str, Any] = {"schema_version": 1, "format": FORMAT, "name": self.name, "cluster_id": "local"}
        header.update(run_id=f"local-{secrets.token_hex(6)}", user=os.environ.get("USER") or "local", job=dict(job))
        header.update(code_sha256="", created_wall_ms=_now())
        if not _records.create(self.path / "run.json", header):
            header = header_of((self.path / "run.json").read_bytes(), str(self.path))
        self.run_id = str(header["run_id"])
        self.format = int(header.get("format", 1))
        self._claim(job, world_size, nodes)

    def _claim(self, job: Mapping[str, Any], world_size: int, nodes: list[str]) -> None:
        claims = self.path / "attempts"
        claims.mkdir(exist_ok=True)
        self.attempt = max((int(file.stem) for file in claims.glob("??????.json")), default=0) + 1
        claim = {"schema_version": 1, "number": self.attempt, "cluster_id": "local", "run_id": self.run_id}
        claim.update(world_size=world_size, nodes=nodes, job=dict(job), wall_ms=_now(), counts=True)
        while not _records.create(claims / f"{self.attempt:06d}.json", claim):
            self.attempt += 1
            claim["number"] = self.attempt
        ended = sum(self._succeeded(number) for number in range(1, self.attempt))
        self.writes_as = f"{self.run_id}s{ended}" if ended else self.run_id
        self.start = self._newest_sound()
        begin = {"schema_version": 1, "from": "", "attempt": 0, "report": 0, "reports_before": 0}
        if self.start is not None:
            attempt, report = self.start.place
            before = self._begin_of(attempt)
            self.reports_before = int((before or {}).get("reports_before") or 0) + report
            begin.update({"from": self.start.name, "attempt": attempt, "report": report, "reports_before": self.reports_before})
        attempt_folder = claims / f"{self.attempt:06d}"
        attempt_folder.mkdir(exist_ok=True)
        _records.create(attempt_folder / "from.json", begin)
        self._journal = (attempt_folder / "metrics-000001.jsonl").open("a")

    def _succeeded(self, attempt: int) -> bool:
        try:
            return bool(json.loads((self.path / "attempts" / f"{attempt:06d}" / "end.json").read_text())["state"] == "SUCCEEDED")
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _begin_of(self, attempt: int) -> dict[str, Any] | None:
        try:
            start: dict[str, Any] = json.loads((self.path / "attempts" / f"{attempt:06d}" / "from.json").read_text())
        except (OSError, ValueError):
            return None
        return start

    # -- checkpoints ----------------------------------------------------------------------------------------------------
    def claim_name(self, name: str, report: int) -> bool:
        return self.format >= 2 and _claims.claim_name(self.path, name, self.attempt, report) is not Claim.TAKEN

    def committed(self) -> list[Found]:
        """Returns the committed checkpoints on the live branch, oldest first. The branch goes from the newest
        attempt back along the checkpoints from which attempts started.
        """
        checkpoints = [
            checkpoint
            for checkpoint in map(self._read_manifest, self._directories())
            if checkpoint is not None and self._is_its_own(checkpoint)
        ]
        numbers = [int(file.stem) for file in (self.path / "attempts").glob("??????.json")]
        live, attempt, last = [], max((n for n in numbers if self._begin_of(n) is not None), default=0), None
        while attempt:
            live += [
                checkpoint
                for checkpoint in checkpoints
                if checkpoint.place[0] == attempt and (last is None or checkpoint.place[1] <= last)
            ]
            begin = self._begin_of(attempt) or {}
            following, last = int(begin.get("attempt") or 0), int(begin.get("report") or 0)
            attempt = following if following < attempt else 0
        return sorted(live, key=lambda checkpoint: checkpoint.place)

    def _directories(self) -> Iterator[str]:
        """Yields the directories that may hold a manifest, relative to the run's: its direct subdirectories, and
        deeper ones with a claim in names/.
        """
        yield from (manifest.parent.name for manifest in self.path.glob(f"*/{MANIFEST}"))
        names = self.path / "names"
        for top in names.iterdir() if names.is_dir() else ():
            if top.is_dir():
                yield from (str(claim.relative_to(names)) for claim in top.rglob("*") if claim.is_file())

    def _read_manifest(self, name: str) -> Found | None:
        try:
            manifest = json.loads((self.path / name / MANIFEST).read_text())
            return Found(name, manifest) if manifest["directory"] == name else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _is_its_own(self, checkpoint: Found) -> bool:
        """Returns whether the directory belongs to the attempt in the manifest: by the directory's name, or by its
        claim in names/. An unreadable claim is ignored.
        """
        if "/" not in checkpoint.name and _checkpoint_names.has_attempt(checkpoint.name):
            return int(checkpoint.name.rpartition("-a")[2]) == checkpoint.place[0]
        if _checkpoint_names.path_fault_of(checkpoint.name):
            return False
        try:
            return _claims.claim_of(self.path, checkpoint.name) in (None, checkpoint.place)
        except FileNotFoundError:
            return False

    def _newest_sound(self) -> Found | None:
        for checkpoint in reversed(self.committed()):
            fault = self._fault(checkpoint)
            if not fault:
                return checkpoint
            self.warnings.append(f"a damaged checkpoint was passed over: {checkpoint.name}: {fault}")
        return None

    def _fault(self, checkpoint: Found) -> str:
        for file in checkpoint.manifest["files"]:
            place = self.path / checkpoint.name / file["path"]
            try:
                if place.stat().st_size != file["bytes"] or _hash(place) != file["sha256"]:
                    return f"{file['path']} is not what was committed"
            except OSError as error:
                return f"{file['path']}: {error.strerror}"
        return ""

    def write_manifest(self, name: str, report: int, files: list[dict[str, Any]], metrics_json: str, world_size: int) -> Found:
        """Writes the manifest, which commits the checkpoint. The metrics are stored as text, so that their hash does
        not depend on the reader.
        """
        manifest: dict[str, Any] = {"schema_version": 1, "directory": name, "attempt": self.attempt, "report": report}
        manifest.update(world_size=world_size, wall_ms=_now(), bytes=sum(file["bytes"] for file in files))
        manifest.update(metrics=metrics_json, files=sorted(files, key=lambda file: str(file["path"])))
        text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        manifest["manifest_sha256"] = hashlib.sha256(text.encode()).hexdigest()
        _records.replace(self.path / name / MANIFEST, manifest)
        return Found(name, manifest)

    def remove(self, checkpoint: Found) -> None:
        """Removes a checkpoint. The manifest is removed first, so that a partly removed checkpoint does not count."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / checkpoint.name / MANIFEST).unlink()
        shutil.rmtree(self.path / checkpoint.name, ignore_errors=True)

    # -- reports and the end --------------------------------------------------------------------------------------------
    def journal(self, index: int, metrics: list[str]) -> None:
        ranks = ", ".join(f'"{rank}": {text}' for rank, text in enumerate(metrics))
        self._journal.write(f'{{"index": {index}, "wall_ms": {_now()}, "metrics": {{{ranks}}}}}\n')
        self._journal.flush()

    def end(self, state: str, cause: str, started_ms: int, metrics_json: str) -> None:
        last = self.committed()
        attempt_folder = self.path / "attempts" / f"{self.attempt:06d}"
        attempt = {"schema_version": 1, "attempt": self.attempt, "state": state, "cause": cause}
        attempt.update(first_failure_rank=None, started_wall_ms=started_ms, ended_wall_ms=_now())
        _records.replace(attempt_folder / "end.json", attempt)
        result: dict[str, Any] = {"schema_version": 1, "name": self.name, "cluster_id": "local", "run_id": self.run_id}
        result.update(state=state, reason=cause, attempts=self.attempt, failures=int(state == "FAILED"))
        result.update(checkpoint=last[-1].name if last else None, metrics=json.loads(metrics_json or "null"))
        result.update(warnings=self.warnings, submitted_wall_ms=started_ms, ended_wall_ms=_now())
        _records.replace(self.path / "result.json", result)

    def keep(self, driver_pkl: bytes, code_sha256: str, code: bytes) -> None:
        """Stores the files for `restore`. The code is written before driver.pkl, which contains its name. Keeps the
        older code archives that attempts of a cluster name.
        """
        folder = self.path / "code"
        if code:
            folder.mkdir(exist_ok=True)
            if not (folder / f"{code_sha256}.tar.zst").is_file():
                _files.replace(folder / f"{code_sha256}.tar.zst", code)
        _files.replace(self.path / "driver.pkl", driver_pkl)
        named = {code_sha256, *map(_code_of, [self.path / "run.json", *(self.path / "attempts").glob("??????.json")])}
        for archive in folder.glob("*.tar.zst"):
            if archive.name.partition(".")[0] not in named:
                archive.unlink(missing_ok=True)

    def close(self) -> None:
        """Unlocks the directory. This also works if a process that the loop forked (a loader's worker) is still alive
        and has the lock's file open.
        """
        if self._journal is not None:
            self._journal.close()
        if self._lock is not None and not self._lock.closed:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            self._lock.close()


def take_files(source: pathlib.Path, target: pathlib.Path, names: list[str], rank: int, *, move: bool) -> list[dict[str, Any]]:
    """Copies or moves the files into the checkpoint's directory, writes them to disk and hashes them. Returns their
    entries for the manifest.
    """
    return [_take(source / name, target / name, name, rank, move=move) for name in names]


def _take(source: pathlib.Path, target: pathlib.Path, name: str, rank: int, *, move: bool) -> dict[str, Any]:
    target.parent.mkdir(parents=True, exist_ok=True)
    if move and source != target:
        # an OSError means that the target is on another file system, so the file is copied
        with contextlib.suppress(OSError):
            source.replace(target)
    digest, size = hashlib.sha256(), 0
    if target.exists():
        with target.open("rb") as there:
            while piece := there.read(_PIECE):
                digest.update(piece)
                size += len(piece)
            os.fsync(there.fileno())
    else:
        with source.open("rb") as here, target.open("wb") as there:
            while piece := here.read(_PIECE):
                digest.update(piece)
                size += len(piece)
                there.write(piece)
            there.flush()
            os.fsync(there.fileno())
        shutil.copymode(source, target)
    return {"path": name, "bytes": size, "sha256": digest.hexdigest(), "rank": rank}


def give_back(source: pathlib.Path, target: pathlib.Path, names: list[str]) -> None:
    """Moves files back that `take_files` has moved, since the checkpoint is not kept. Raises OSError if a file
    cannot be moved.
    """
    for name in names:
        if (target / name).exists() and not (source / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).replace(source / name)


def files_below(folder: pathlib.Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file() and file.name != MANIFEST)


def _code_of(record: pathlib.Path) -> str:
    try:
        return str(json.loads(record.read_text()).get("code_sha256") or "")
    except (OSError, ValueError):
        return ""


def _hash(file: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _now() -> int:
    return int(time.time() * 1000)
