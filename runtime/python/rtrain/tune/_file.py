"""A sweep's directory. `sweep.json` holds the trials and the states of searcher and scheduler; a rename replaces it at every
change. `tuner.pkl` holds the arguments of the Tuner.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import pickle
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from rtrain import _files, _public_names
from rtrain.train._configs import RunConfig
from rtrain.train._driver._submission import say
from rtrain.train._values import _metrics
from rtrain.tune._errors import TuneError
from rtrain.tune._sweep import Sweep
from rtrain.tune._trial import Leg, Trial
from rtrain.tune.schedulers._scheduler import TrialScheduler
from rtrain.tune.search._searcher import Searcher, innermost, resume

SWEEP, TUNER, _LOCK = "sweep.json", "tuner.pkl", ".driver"
_VERSION = 1


@dataclass
class SweepFile:
    folder: pathlib.Path
    name: str
    storage_path: str | None  # storage path of the trials' runs
    kept_callbacks: list[Any] | None = None  # the callbacks in tuner.pkl; None: all
    _written: dict[str, tuple[Any, dict[str, Any]]] = field(default_factory=dict)

    def save(self, sweep: Sweep, callback_states: Sequence[Any] = ()) -> None:
        state = {
            "version": _VERSION,
            "name": self.name,
            "storage_path": self.storage_path,
            "token": sweep.token,
            "metric": sweep.limits.metric,
            "mode": sweep.limits.mode,
            "saved": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
            "elapsed_s": round(sweep.elapsed_s, 3),
            "over": sweep.over,
            "asked": sweep.asked,
            "exhausted": sweep.exhausted,
            "names_seen": list(sweep.names_seen),
            "checkpoints": sorted(sweep.checkpoints),
            **_kept("searcher", sweep.searcher, innermost(sweep.searcher), Searcher),
            **_kept("scheduler", sweep.scheduler, sweep.scheduler, TrialScheduler),
            "stopper": _packed(sweep.stopper),
            "callbacks": [_packed(callback_state) for callback_state in callback_states],
            "trials": [self._trial_json(trial) for trial in sweep.trials],
        }
        _files.replace(self.folder / SWEEP, json.dumps(state, indent=1).encode(), durable=True)

    def _trial_json(self, trial: Trial) -> dict[str, Any]:
        """Returns a trial's JSON; the earlier one if the trial has not changed."""
        state = (trial.status, trial.reports, len(trial.legs), trial.leg.run_id, trial.leg.seen, trial.leg.holds, trial.started)
        kept = self._written.get(trial.trial_id)
        if kept is None or kept[0] != state:
            kept = self._written[trial.trial_id] = (state, _trial_json(trial))
        return kept[1]

    def save_tuner(self, settings: dict[str, Any]) -> None:
        """Stores the arguments of the Tuner. TuneError names what cannot be pickled."""
        for name, value in settings.items():
            try:
                _public_names.dumps(value)
            except Exception as error:
                raise TuneError(
                    f"{name} cannot be kept for Tuner.restore: {type(error).__name__}: {error}; leave what cannot be pickled out of it"
                ) from error
        self.folder.mkdir(parents=True, exist_ok=True)
        self._set_aside()
        _files.replace(self.folder / TUNER, _public_names.dumps(settings), durable=True)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Locks the sweep for one driver. Raises TuneError while another driver runs this sweep, or another one of its name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / _LOCK).open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                raise TuneError(
                    f"another driver ({lock.read().strip() or 'of another machine'}) runs the sweep in {self.folder}: wait for its end, end it, or "
                    "take another name"
                ) from None
            except OSError:  # a file system without locks
                pass
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {socket.gethostname()}")
            lock.flush()
            yield

    def _set_aside(self) -> None:
        """Renames the file of an earlier sweep of this name after the time of its last change."""
        old = self.folder / SWEEP
        if old.is_file():
            stamp = datetime.datetime.fromtimestamp(old.stat().st_mtime).strftime("%Y-%m-%d_%H-%M-%S.%f")
            old.rename(self.folder / f"sweep-{stamp}.json")


def without_unpicklable(config: RunConfig) -> RunConfig:
    """Removes the driver's own helpers (callbacks, a reporter) that cannot be pickled. A later driver runs without them."""
    kept = []
    for callback in config.callbacks or []:
        if _can_be_pickled(callback):
            kept.append(callback)
        else:
            say(f"{type(callback).__name__} among the callbacks cannot be pickled: Tuner.restore goes on without it")
    config.callbacks = kept
    if not _can_be_pickled(config.progress_reporter):
        config.progress_reporter = None
    return config


def _can_be_pickled(value: Any) -> bool:
    try:
        _public_names.dumps(value)
    except Exception:
        return False
    return True


def exists(folder: pathlib.Path) -> bool:
    return (folder / SWEEP).is_file() and (folder / TUNER).is_file()


def read_tuner(folder: pathlib.Path) -> dict[str, Any]:
    try:
        settings: dict[str, Any] = pickle.loads((folder / TUNER).read_bytes())
    except FileNotFoundError as error:
        raise TuneError(f"{folder} is not the directory of a sweep: it has no {TUNER}") from error
    except ModuleNotFoundError as error:
        raise TuneError(
            f"{folder / TUNER} needs the module {error.name!r}, which is not here; start from where it can be imported"
        ) from error
    return settings


def read(folder: pathlib.Path) -> dict[str, Any]:
    """Returns sweep.json. Raises TuneError if it is missing or of a later version."""
    try:
        state = json.loads((folder / SWEEP).read_text())
    except FileNotFoundError as error:
        raise TuneError(f"{folder} is not the directory of a sweep: it has no {SWEEP}") from error
    except ValueError as error:
        raise TuneError(f"{folder / SWEEP} cannot be read: {error}") from error
    if not isinstance(state, dict) or state.get("version") != _VERSION:
        raise TuneError(f"{folder / SWEEP} is not of a version that this one reads ({_VERSION})")
    return state


def take_over(sweep: Sweep, state: dict[str, Any]) -> None:
    """Applies the stored state of an earlier driver to the sweep."""
    sweep.token, sweep.asked, sweep.exhausted = state["token"], state["asked"], state["exhausted"]
    sweep.elapsed_s, sweep.over = state["elapsed_s"], state["over"]
    sweep.names_seen = dict.fromkeys(state["names_seen"])
    sweep.checkpoints = set(state["checkpoints"])
    sweep.trials = [trial_of(record) for record in state["trials"]]
    if "searcher_saved" in state:
        _restore(innermost(sweep.searcher), state["searcher_saved"])
        resume(sweep.searcher, {trial.trial_id for trial in sweep.trials if not trial.finished})
    else:
        sweep.searcher = _unpacked(state["searcher"])
    if "scheduler_saved" in state:
        _restore(sweep.scheduler, state["scheduler_saved"])
    else:
        sweep.scheduler = _unpacked(state["scheduler"])
    sweep.stopper = _unpacked(state["stopper"])


def callback_states(state: dict[str, Any]) -> list[Any]:
    """Returns the stored results of the callbacks' `get_state`, in their order; empty for an earlier version."""
    return [_unpacked(kept) for kept in state.get("callbacks", [])]


def _trial_json(trial: Trial) -> dict[str, Any]:
    return {
        "trial_id": trial.trial_id,
        "name": trial.name,
        "status": trial.status,
        "params": {key: _shown(value) for key, value in trial.drawn.items()},  # for readers; the values in "pickle" are used
        "last_result": json.loads(_metrics.encode(trial.last_result)),
        "reports": trial.reports,
        "why": trial.why,
        "runs": [
            {leg_field.name: getattr(leg, leg_field.name) for leg_field in fields(leg) if leg_field.name != "config"}
            for leg in trial.legs
        ],
        "pickle": _packed(
            {"config": trial.config, "drawn": trial.drawn, "configs": [leg.config for leg in trial.legs], "error": trial.error}
        ),
    }


def trial_of(record: dict[str, Any]) -> Trial:
    kept = _unpacked(record["pickle"])
    legs = [Leg(**{**run, "config": config}) for run, config in zip(record["runs"], kept["configs"], strict=True)]
    last: Any = _metrics.decode(record["last_result"])
    return Trial(
        record["trial_id"],
        record["name"],
        kept["config"],
        kept["drawn"],
        legs,
        status=record["status"],
        last_result=last,
        reports=record["reports"],
        why=record["why"],
        error=kept["error"],
    )


def _shown(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool) or value is None else repr(value)


def _kept(name: str, value: Any, saving: Any, base: type) -> dict[str, str]:
    """Returns the entry of a searcher or scheduler: its pickle, or the file that its class's own `save` has written."""
    if type(saving).save is getattr(base, "save", None):
        return {name: _packed(value)}
    with tempfile.TemporaryDirectory(prefix="rtrain-tune-") as folder:
        file = pathlib.Path(folder) / name
        saving.save(str(file))
        if not file.is_file():
            raise TuneError(
                f"{type(saving).__name__}.save has written no file {name}: it writes its state to the path that it is given"
            )
        return {f"{name}_saved": base64.b64encode(file.read_bytes()).decode()}


def _restore(value: Any, saved: str) -> None:
    with tempfile.TemporaryDirectory(prefix="rtrain-tune-") as folder:
        file = pathlib.Path(folder) / "state"
        file.write_bytes(base64.b64decode(saved))
        value.restore(str(file))


def _packed(value: Any) -> str:
    return base64.b64encode(_public_names.dumps(value)).decode()


def _unpacked(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))
