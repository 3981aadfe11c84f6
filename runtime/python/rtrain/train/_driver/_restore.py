"""Makes a trainer from a run's directory alone."""

from __future__ import annotations

import copy
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from rtrain._http import Head, HeadError
from rtrain.train._archive import _package
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._configs import RunConfig
from rtrain.train._driver import _raised
from rtrain.train._driver._origin import Origin
from rtrain.train._driver._training import Training
from rtrain.train._result import recorded
from rtrain.train._run_directory import _elsewhere, _filesystems, _reading, _views
from rtrain.train._values import _names

if TYPE_CHECKING:
    from rtrain._argument_types import RestoreArguments

_Trainer = TypeVar("_Trainer", bound=Training)

# the address in the text of a function or object, which differs in each process
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_OVERRIDES = ("train_loop_per_worker", "train_loop_config", "datasets", "scaling_config", "run_config")


def has_driver(path: str, filesystem: Any) -> bool:
    try:
        _reading.open_directory(_place_of(path, filesystem)).read("driver.pkl")
    except (OSError, ValueError):
        return False
    return True


def _place_of(path: str, filesystem: Any) -> str:
    """Returns the place of the run at `path` on the given file system (None: this machine's). Raises ValueError if
    there is no run.
    """
    if filesystem is None:
        text = _names.local_path(path)
        return text if pathlib.Path(text).exists() else (_views.run_shown_as(text) or text)
    if not _filesystems.is_carried(filesystem):
        if (directory := recorded(path.rstrip("/"), filesystem)) is None:
            raise ValueError(f"{path} cannot be restored: on storage_filesystem it is not the directory of a run")
        return directory.path
    place = _filesystems.place_of(path, filesystem)
    _filesystems.remember(place)
    return place.path


def restored(
    kind: Callable[..., _Trainer], backend_argument: str, path: str, filesystem: Any, overrides: RestoreArguments
) -> _Trainer:
    """Returns the trainer of a run's directory. `overrides` replaces arguments that the run was made with.

    kind: makes the trainer; backend_argument: the name of its argument for the process group.
    filesystem: the file system of `path`; None: this machine's, or `path` is a URI. Raises ValueError if `path` is
    no run of `fit()`, and TypeError for an unknown override.
    """
    for name in overrides:
        if name not in _OVERRIDES:
            raise TypeError(f"restore() has no override {name!r}; there are: {', '.join(_OVERRIDES)}")
    given: RunConfig | None = overrides.get("run_config")
    if given is not None:
        _filesystems.remember(given.place)
    directory, payload = _opened(_place_of(path, filesystem).rstrip("/"))
    kept = payload.part("trainer")
    origin = Origin.of(directory, kept["run_config"])
    arguments: dict[str, Any] = {
        "train_loop_config": overrides.get("train_loop_config"),
        "scaling_config": overrides.get("scaling_config") or kept["scaling_config"],
        "run_config": _on(
            filesystem, path, _run_config(given, kept["run_config"], origin, payload, directory.path), directory.path
        ),
        "dataset_config": payload.part("data_config"),
        "metadata": payload.header.get("metadata") or None,
        "datasets": overrides.get("datasets"),
    }
    if "validation" in payload.parts:
        arguments["validation_config"] = payload.part("validation")
    arguments[backend_argument] = payload.part("torch_config")
    pickles = {
        name: _package.Pickled(name, payload.parts[name]) for name in ("loop", "config", "datasets") if name in payload.parts
    }
    trainer = kind(overrides.get("train_loop_per_worker") or pickles["loop"], **arguments)
    for name, override in (("config", "train_loop_config"), ("datasets", "datasets")):
        if overrides.get(override) is None and name in pickles:
            trainer._kept[name] = pickles[name]
    if overrides.get("train_loop_per_worker") is None:
        trainer._code = _code_of(directory, payload.header.get("code") or "")
    trainer._origin = origin
    trainer.resume_from_checkpoint = _began_with(payload.header.get("resume_from"))
    return trainer


def _opened(place: str) -> tuple[_reading.RunDirectory, _package.Payload]:
    """Returns the run's directory and its driver.pkl. Raises an error if the versions in driver.pkl are not compatible
    with this process.
    """
    try:
        directory = _reading.open_directory(place)
        payload = _package.Payload.from_bytes(directory.read("driver.pkl"), f"{place}/driver.pkl")
    except FileNotFoundError as error:
        raise ValueError(
            f"{place} cannot be restored: it has no driver.pkl, so no `fit()` made it (`rtrain restore {place}` goes on with "
            f"any run): {error}"
        ) from error
    _package.check_versions(payload.header, "of the run's directory")
    return directory, payload


def _run_config(given: RunConfig | None, before: RunConfig, origin: Origin, payload: _package.Payload, path: str) -> RunConfig:
    """Returns the given config, or else the run's own. The directory gives the name and storage that the config
    lacks.
    """
    run_config = copy.copy(given or before)
    run_config.name = given.name if given and given.is_named else origin.name
    runs_path = (given.runs_path if given else None) or origin.storage_path
    moved = given is not None and given.storage_path is not None
    elsewhere = given.elsewhere if given is not None and moved else None
    if elsewhere is None and not moved and "elsewhere" in payload.parts:
        elsewhere = payload.part("elsewhere")
    if elsewhere is None:
        run_config.storage_path = runs_path
    else:
        run_config.storage_filesystem, run_config.storage_path = elsewhere.filesystem, elsewhere.path
        run_config.records_path = runs_path
        _elsewhere.remember(path, elsewhere)
    if "stop" in payload.parts and run_config.stop is None:
        run_config.stop = payload.part("stop")
    return run_config


def _on(filesystem: Any, path: str, config: RunConfig, run_path: str) -> RunConfig:
    """Returns the config with the file system from which the run is restored, unless the config has one."""
    if filesystem is not None and config.storage_filesystem is None and _filesystems.is_carried(filesystem):
        config.storage_filesystem = _filesystems.without_wrappers(filesystem, "")[0]
        config._view = _views.View.of(path, filesystem, run_path)
    return config


def _code_of(directory: _reading.RunDirectory, digest: str) -> tuple[str, bytes]:
    if not digest:
        return "", b""
    try:
        return digest, directory.read(f"code/{digest}.tar.zst")
    except FileNotFoundError as error:
        raise ValueError(
            f"{directory.path} cannot be restored as it is: the code that its training function was sent with is missing "
            f"(code/{digest}.tar.zst). Give restore() the function, as train_loop_per_worker="
        ) from error


def _began_with(kept: Mapping[str, str] | None) -> Checkpoint | None:
    """Returns the checkpoint that was given to the run as `resume_from_checkpoint`."""
    if kept is None:
        return None
    checkpoint = Checkpoint(kept["path"])
    checkpoint._blob = kept.get("blob", "")
    return checkpoint


def differences(head: Head, before: Mapping[str, Any], now: Mapping[str, Any], config: bytes) -> list[str]:
    """Returns the differences between a resumed run and the earlier run: fields of the job, and keys of the config,
    which is pickled as for workers. Does not unpickle another user's config, since that would run their code.
    """
    old, new = before.get("job") or {}, now.get("job") or {}
    changes = []
    for group in ("scaling", "failure", "checkpoint", "backend"):
        changes += _changed(group, old.get(group) or {}, new.get(group) or {})
    digest = (old.get("env") or {}).get("RTRAIN_DRIVER_SHA256")
    try:
        if not _raised.is_own(head, before):
            return changes
        then = _package.Payload.from_bytes(head.content(f"/v1/blobs/{digest}"), "the earlier driver.pkl").parts["config"]
        if then == config:
            return changes
        earlier, later = (_package.Pickled("config", content).load() for content in (then, config))
    except (HeadError, ImportError, ValueError, AttributeError, KeyError):
        return changes
    if isinstance(earlier, Mapping) or isinstance(later, Mapping):
        changes += _changed("train_loop_config", earlier or {}, later or {})
    return changes


def _changed(where: str, old: Any, new: Any) -> list[str]:
    lines = []
    for key in sorted({*old, *new}, key=str):
        after, before = (_ADDRESS.sub("", repr(settings.get(key))) for settings in (new, old))
        if after != before:
            lines.append(f"{where}.{key}: {_short(before)} -> {_short(after)}")
    return lines


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
