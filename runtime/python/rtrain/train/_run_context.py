"""The base classes of a driver's callbacks, and the context that they get."""

import contextlib
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rtrain import _arguments
from rtrain._lazy import public_in
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._values import _names
from rtrain.train._values._errors import ControllerError, TrainingFailedError


@dataclass(frozen=True)
class TrainRunContext:
    """The run of a callback: its id, name and path, and the arguments of its trainer."""

    run_id: str
    name: str
    run_path: str
    run_config: Any = None
    scaling_config: Any = None
    train_loop_config: Any = None

    def get_run_config(self) -> Any:
        """Returns the RunConfig of the run; None after `attach`."""
        return self.run_config


class RTrainCallback:
    """The base class of callbacks. A callback that is not a UserCallback is accepted, mentioned once, and not
    called.
    """


RayTrainCallback = RTrainCallback


class UserCallback(RTrainCallback):
    """Functions that the driver calls while it follows a run. An exception in one ends the run."""

    def before_run(self, run_context: TrainRunContext) -> None:
        """Called once the run is submitted, before all other calls, so that `run_context` has its id and path.

        It is also called when this driver joins a running run.
        """

    def after_report(self, run_context: TrainRunContext, metrics: list[dict[str, Any]], checkpoint: Checkpoint | None) -> None:
        """Called after each report, in order. For a report with a checkpoint: after the commit.

        metrics: the metrics of every rank, by rank.
        checkpoint: the reported checkpoint; None if it was never committed, or was removed.
        """

    def after_exception(self, run_context: TrainRunContext, worker_exceptions: dict[int, Exception]) -> None:
        """Called after an attempt failed, with the exception of each failed rank, by rank."""

    def after_run(self, run_context: TrainRunContext) -> None:
        """Called after the run has ended, however it ended."""


@contextlib.contextmanager
def callback_errors() -> Iterator[None]:
    """Converts an exception of a callback to a ControllerError, since no worker caused it. Its `controller_failure`
    is the exception.
    """
    try:
        yield
    except TrainingFailedError:
        raise
    except Exception as error:
        why = f"Training failed: a callback of RunConfig(callbacks=) raised {type(error).__name__}: {error}"
        failure = ControllerError(error, why)
        failure._of_a_callback = True
        raise failure from error


def tell_end(callbacks: list[UserCallback], context: TrainRunContext) -> None:
    """Calls `after_run` of all callbacks, also after one has raised. Then raises the first error."""
    errors = []
    for callback in callbacks:
        try:
            with callback_errors():
                callback.after_run(context)
        except ControllerError as error:
            errors.append(error)
    if errors:
        raise errors[0]


@contextlib.contextmanager
def end_reported(callbacks: list[UserCallback], context: TrainRunContext) -> Iterator[None]:
    """Calls `after_run` after the block. If the block raised too, its exception is raised, and that of the callback
    is printed.
    """
    try:
        yield
    except BaseException:
        try:
            tell_end(callbacks, context)
        except ControllerError as error:
            print(f"rtrain: {error}", file=sys.stderr, flush=True)
        raise
    tell_end(callbacks, context)


def checked(callbacks: list[Any] | None) -> list[UserCallback]:
    """Returns the given callbacks and those of RTRAIN_TRAIN_CALLBACKS="module.Class,...". Raises a ValueError for an
    object that is no callback.
    """
    given = list(callbacks or [])
    for name in filter(None, _names.setting("CALLBACKS").split(",")):
        module, _, kind = name.strip().rpartition(".")
        try:
            given.append(getattr(importlib.import_module(module), kind)())
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(f"RTRAIN_TRAIN_CALLBACKS names {name.strip()!r}; it takes module.Class,...: {error}") from error
    for callback in given:
        if not isinstance(callback, RTrainCallback):
            raise ValueError(
                f"RunConfig(callbacks=): {callback!r} is not a UserCallback; derive its class from rtrain.train.UserCallback"
            )
        if not isinstance(callback, UserCallback):
            kind = type(callback).__name__
            _arguments.once(f"callbacks.{kind}", f"{kind} among RunConfig(callbacks=) is never called: only a UserCallback is")
    return [user_callback for user_callback in given if isinstance(user_callback, UserCallback)]


public_in("rtrain.train", RTrainCallback, TrainRunContext, UserCallback)
