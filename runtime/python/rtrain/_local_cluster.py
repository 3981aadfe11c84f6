"""Starts a cluster for one process: a head and one agent as real daemons on loopback, by the `rtrain` program. They watch
this process, so they and their workers end with it, even by kill -9. Files of runs stay.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

RESULTS = "~/rtrain_results"
_PREFIX = "rtrain-local-"
_UP_WITHIN_S = 90.0
_DOWN_WITHIN_S = 60.0


class LocalClusterError(RuntimeError):
    """The local cluster could not be started. The text says why and what to do."""


def find_program() -> pathlib.Path:
    """Returns the path of the `rtrain` program: RTRAIN_BINARY, else the one installed with this interpreter, on PATH, or
    beside this package.
    """
    given = os.environ.get("RTRAIN_BINARY")
    if given:
        if not os.access(given, os.X_OK):
            raise LocalClusterError(f"RTRAIN_BINARY names {given}, which is not a program; unset it or correct it")
        return pathlib.Path(given)
    on_path = shutil.which("rtrain")
    package = pathlib.Path(__file__).resolve().parent
    beside_package = [package / "_bin" / "rtrain", *(parent / "build/release/rtrain" for parent in package.parents[2:3])]
    for program in (*_beside_interpreter(), *([pathlib.Path(on_path)] if on_path else []), *beside_package):
        if _is_binary(program):
            return program
    raise LocalClusterError(
        "the rtrain program was not found: not in RTRAIN_BINARY, not beside the interpreter, not on PATH, not beside the package; "
        "install it, or set RTRAIN_BINARY to it"
    )


def _beside_interpreter() -> list[pathlib.Path]:
    """Returns the folders in which installers for this interpreter put programs. The user's own folder is included only if
    its packages are importable.
    """
    schemes = [sysconfig.get_default_scheme()]
    if site.ENABLE_USER_SITE:
        schemes.append(sysconfig.get_preferred_scheme("user"))
    folders = [*(sysconfig.get_path("scripts", scheme) for scheme in schemes), str(pathlib.Path(sys.executable).parent)]
    return [pathlib.Path(folder) / "rtrain" for folder in folders]


def _is_binary(path: pathlib.Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


@dataclass(frozen=True)
class LocalCluster:
    """The directory of the daemons and the address of their head."""

    program: pathlib.Path
    folder: pathlib.Path
    address: str
    storage: pathlib.Path

    @property
    def config(self) -> pathlib.Path:
        return self.folder / "config.yaml"

    @classmethod
    def start(cls, resources: Mapping[str, float], storage: str | os.PathLike[str] | None = None) -> LocalCluster:
        program = find_program()
        _remove_leftovers()
        folder = pathlib.Path(tempfile.mkdtemp(prefix=_PREFIX))
        (folder / "owner").write_text(f"{os.getpid()} {_start_time(os.getpid())}")
        results = pathlib.Path(storage or RESULTS).expanduser().absolute()
        results.mkdir(parents=True, exist_ok=True)
        command = [str(program), "up", "--data", str(folder), "--config", str(folder / "config.yaml"), "--port", "0"]
        command += ["--storage-root", str(results), "--until-pid", str(os.getpid()), "-o", "json"]
        command += ["--pass-env", "*"]  # its workers have the environment of this process, as with torchrun
        if resources:
            command += ["--resources", ",".join(f"{name}={amount:g}" for name, amount in resources.items())]
        try:
            answer = json.loads(_run(command, _UP_WITHIN_S))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(program, folder, str(answer["address"]), results)

    def stop(self) -> None:
        """Stops the daemons and their workers and waits for their end. Runs in the storage directory stay."""
        with contextlib.suppress(LocalClusterError, OSError):  # the daemons end with this process at the latest
            _run([str(self.program), "down", "--data", str(self.folder)], _DOWN_WITHIN_S)
        shutil.rmtree(self.folder, ignore_errors=True)


def _run(command: list[str], within_s: float) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RTRAIN_")}
    try:
        done = subprocess.run(command, env=kept, capture_output=True, text=True, timeout=within_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise LocalClusterError(f"`{' '.join(command)}` did not end in {within_s:.0f} s") from error
    if done.returncode != 0:
        raise LocalClusterError(f"`{' '.join(command)}` failed:\n{(done.stderr or done.stdout).strip()}")
    return done.stdout


def _start_time(pid: int) -> str:
    """Returns the start time of the process in ticks since boot; empty if it does not exist."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _remove_leftovers() -> None:
    """Directories of clusters whose process was killed."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            pid, _, started = (folder / "owner").read_text().partition(" ")
            if folder.stat().st_uid == os.getuid() and _start_time(int(pid)) != started:
                shutil.rmtree(folder, ignore_errors=True)
