"""Ctrl-C three times: the message depends on whether the head has received the stop request."""

from __future__ import annotations

import os
import pathlib
import types

import pytest
from rtrain._http import Head, Unreachable
from rtrain._settings import Place
from rtrain.train._driver._follower import Driver
from rtrain.train._run_context import TrainRunContext
from rtrain.tune._driver import Beginning, SweepDriver
from rtrain.tune.callback import Callbacks

PLACE = Place("127.0.0.1:9", "", "", "test")


class Left(BaseException):
    pass


def left(status: int) -> None:
    raise Left(status)


@pytest.mark.parametrize("reaches_head", [False, True])
def test_who_leaves_a_run_hears_whether_it_is_being_stopped(monkeypatch, reaches_head) -> None:
    lines: list[str] = []
    driver = Driver(Head(PLACE), "r-1", "mine", [], TrainRunContext("r-1", "mine", "/nowhere"), say=lines.append)
    monkeypatch.setattr(os, "_exit", left)
    driver.interrupts.stop = driver._stop
    if reaches_head:
        monkeypatch.setattr(Head, "post", lambda head, path: {"state": "STOPPING"})
    for _ in range(2):
        driver.interrupts._taken(2, None)
    with pytest.raises(Left):
        driver.interrupts._taken(2, None)
    assert ("mine is being stopped" in lines[-1]) is reaches_head
    assert ("`rtrain stop mine` ends it" in lines[-1]) is not reaches_head


class Runs:
    """A head that does not answer after the first stop."""

    def __init__(self) -> None:
        self.head = Head(PLACE, patience_s=600)
        self.asked: list[str] = []

    def stop(self, trial: types.SimpleNamespace) -> None:
        self.asked.append(trial.leg.run_name)
        if len(self.asked) > 1:
            raise Unreachable("unreachable", "away")


def test_a_sweep_that_cannot_stop_its_trials_asks_once_and_names_them(capfd) -> None:
    runs = Runs()
    sweep = types.SimpleNamespace(elapsed_s=0.0)
    file = types.SimpleNamespace(folder=pathlib.Path("/nowhere"))
    driver = SweepDriver(sweep, runs, file, types.SimpleNamespace(), Callbacks([]), Beginning(False, [], None, None))
    trials = [types.SimpleNamespace(leg=types.SimpleNamespace(run_name=name, run_id=f"r-{name}")) for name in ("a", "b", "c")]
    driver._stop(trials)
    assert runs.asked == ["a", "b"]
    errors = capfd.readouterr().err
    assert "could not be stopped: b, c: away" in errors
    assert "`rtrain stop b` ends it; `rtrain stop c` ends it" in errors
