"""`python -m rtrain.train._worker_main` is a worker of a run that `fit()` submitted. It reads driver.pkl, joins the
process group if the loop uses torch, calls the loop, and stores rank 0's return value at the head.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import pathlib
import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NoReturn

from rtrain import _on_cpu, _own_folders
from rtrain._http import HeadError, part
from rtrain.train import _process_group, _session, _worker
from rtrain.train._archive._package import Payload, check_versions, dumps
from rtrain.train._values import _names
from rtrain.train._values._facts import Facts, LoopEnded
from rtrain.train._worker import _behind, _errors_text
from rtrain.train._worker._library import CheckpointUploadError, Stopped, check, library
from rtrain.train._workers import _ending, _log_files, _loop_call, _setup, _tracking
from rtrain.train.backend import Hooks

DRIVER_HASH = "RTRAIN_DRIVER_SHA256"
_VALUE_MAX = 4 << 20


def main() -> int:
    payload = _read_payload()
    session = _session.current("main")
    facts = session.facts
    if remark := check_versions(payload.header, facts.node):
        print(f"rtrain: {remark}", file=sys.stderr)
    logging.basicConfig(level=payload.header.get("log_level", logging.INFO))
    if working_dir := os.environ.get("RTRAIN_WORKING_DIR") or os.environ.get("RTRAIN_START_DIR"):
        sys.path.insert(1, working_dir)
    _behind.fail = functools.partial(_failed_behind, facts)
    with _files(payload.header.get("log_to_file")), _cause_is_reported(facts):
        with _no_collections():
            loop, config = payload.part("loop"), payload.part("config")
            _setup.prepare(session, payload)
        hooks = Hooks(session, payload.part("torch_config") if "torch_config" in payload.parts else None)
        hooks.call("on_start")
        group = _TorchGroup(payload)
        with _no_collections():
            group.watch()
        hooks.call("on_training_start")
        value = None
        with contextlib.suppress(LoopEnded), hooks.around_loop():
            value = _loop_call.called(loop, config)
            _behind.join()
        hooks.call("on_shutdown")
        session.flush(None)
        _setup.finish(session)
        if facts.world_rank == 0:
            _leave(facts.run_id, f"return-{facts.attempt}", value)
        group.end()
    return 0


def _run() -> NoReturn:
    """Calls `main`, and then ends the process as Python does, except that it waits only for a limited time for threads
    and functions that hang.
    """
    try:
        code = main()
        _behind.join()
    except SystemExit as end:
        _behind.wait_at_the_end()  # if the loop calls sys.exit(0), its reports are waited for without a limit
        code = _status_of(end)
    except BaseException as error:
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    _tracking.finish_at_exit()  # the upload of the trackers' data may take a while
    _ending.leave(code)


def _status_of(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Disables automatic garbage collection while modules load. Their objects stay alive, and scanning them again
    and again takes a large part of the import of torch. A user's gc.disable() or gc.set_threshold() inside has
    effect.
    """
    before = gc.get_threshold()
    resting = (1 << 30, *before[1:])
    gc.set_threshold(*resting)
    try:
        yield
    finally:
        if gc.get_threshold() == resting:
            gc.set_threshold(*before)


def _read_payload() -> Payload:
    file = os.environ.get("RTRAIN_DRIVER_FILE")
    if file:
        return Payload.from_bytes(pathlib.Path(file).read_bytes(), file)
    digest = os.environ.get(DRIVER_HASH, "")
    return Payload.from_bytes(_worker.head().content(f"/v1/blobs/{digest}"), f"the blob {digest}")


class _TorchGroup:
    """Makes the process group: at once when the pickled loop brought torch along, else when the loop imports torch."""

    def __init__(self, payload: Payload) -> None:
        self._payload = payload
        self._settings: _process_group.Settings = _process_group.Defaults()
        self._made = False
        self._process = os.getpid()

    def watch(self) -> None:
        if not self._payload.header.get("torch", True):
            return
        if "torch_config" in self._payload.parts:
            self._settings = self._payload.part("torch_config") or self._settings
        if "torch" in sys.modules or _names.enabled("EAGER_TORCH", otherwise=False):
            self.make()
        else:
            sys.meta_path.insert(0, _AfterImport("torch", self.make))

    def make(self) -> None:
        if self._made or os.getpid() != self._process:  # a process that the loop has forked is not a rank
            return
        self._made = True
        _process_group.join(self._settings)

    def end(self) -> None:
        if self._made:
            _process_group.leave()


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls `then` once the module `name` is loaded. A search for it (importlib.util.find_spec) calls nothing.

    `then` runs during that import, and so during the import of any module that imports `name`. It must not import a
    module of this package, which may be partly loaded.
    """

    def __init__(self, name: str, then: Any) -> None:
        self._name = name
        self._then = then
        self._looking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loading(spec.loader, self._loaded)
        return spec

    def _loaded(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self._then()


class _Loading(importlib.abc.Loader):
    def __init__(self, inner: Any, loaded: Callable[[], None]) -> None:
        self._inner = inner
        self._loaded = loaded

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        with _no_collections():
            self._inner.exec_module(module)
        self._loaded()


def _leave(run_id: str, key: str, value: object) -> None:
    """Stores rank 0's return value for the driver. If the value cannot be pickled or sent, prints that; the driver then
    returns None.
    """
    if value is None:
        return
    try:
        content = dumps(value, "the training function's return value", dump=_on_cpu.dumps)
        head = _worker.head()
        if len(content) > _VALUE_MAX:
            content = pickle.dumps({"blob": head.upload_blob(content)})
        head.put(f"/v1/runs/{part(run_id)}/values/{key}", content)
    except (ValueError, HeadError) as error:
        print(f"rtrain: the return value is not delivered: {error}", file=sys.stderr)


@contextlib.contextmanager
def _cause_is_reported(facts: Facts) -> Iterator[None]:
    """Sends the text of the loop's exception, with the user's deepest frame first, for `describe` and the driver.
    Sends the exception itself too, if it can be pickled.
    """
    try:
        yield
    except (Stopped, LoopEnded):
        _behind.abandon()
        raise
    except SystemExit as error:
        if error.code not in (None, 0):
            _behind.abandon()
            _tell(f"the training function called sys.exit({error.code!r})")
        raise
    except BaseException as error:
        _fail(facts, error, error)


def _failed_behind(facts: Facts, fault: BaseException) -> None:
    """Ends the process after a report behind the loop has failed. The driver gets the exception that the user's
    function raised.
    """
    raised = fault.__cause__ if isinstance(fault, CheckpointUploadError) and fault.__cause__ is not None else fault
    _fail(facts, fault, raised)


def _fail(facts: Facts, error: BaseException, raised: BaseException) -> NoReturn:
    """Ends the process. The text of `error` becomes the cause of the failure. The driver gets the exception `raised`."""
    from rtrain.train._driver import _raised

    # stored before the end of the process, since a driver reads it as soon as it sees the failure
    _raised.leave(facts, raised)
    _tell(_errors_text.describe(error))
    _errors_text.show(error)
    _tracking.finish(failed=True)
    _own_folders.remove_all()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)  # ends the process even if threads of the loop (a loader's, a collective's) still run


def _tell(text: str) -> None:
    with contextlib.suppress(Exception, SystemExit):
        check(library().rtw_fail(_worker.handle("main"), text.encode("utf-8", "replace")), "main")


@contextlib.contextmanager
def _files(names: tuple[str, str] | None) -> Iterator[None]:
    """Copies the output of this rank to files in the run's directory, for `log_to_file`."""
    if not names:
        yield
        return
    with _log_files.copied(names):
        yield


if __name__ == "__main__":
    threading.current_thread().name = "rtrain-worker"
    _run()
