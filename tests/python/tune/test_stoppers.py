"""Stoppers of one trial, or of all."""

from __future__ import annotations

import datetime
import pickle

import pytest
from rtrain.tune.stopper import (
    CombinedStopper,
    DictStopper,
    ExperimentPlateauStopper,
    FunctionStopper,
    MaximumIterationStopper,
    NoopStopper,
    Stopper,
    TimeoutStopper,
    TrialPlateauStopper,
)


def asked(stopper, values, trial="a", metric="loss"):
    return [stopper(trial, {metric: value, "training_iteration": place + 1}) for place, value in enumerate(values)]


def test_the_simple_ones():
    assert asked(NoopStopper(), [1, 2]) == [False, False]
    assert asked(MaximumIterationStopper(2), [1, 2, 3]) == [False, True, True]
    assert asked(FunctionStopper(lambda trial, result: result["loss"] < 1), [2, 0.5]) == [False, True]
    assert asked(DictStopper({"acc": 0.9}), [0.8, 0.95], metric="acc") == [False, True]
    assert asked(DictStopper({"epoch": 3, "acc": 0.9}), [1, 0.2]) == [False, False], "what is not reported is not reached"


def test_a_trial_on_a_plateau_ends_after_its_grace_period():
    # From the fourth report on, the last three have a standard deviation below 0.1. The grace period is five reports.
    stopper = TrialPlateauStopper("loss", std=0.1, num_results=3, grace_period=5)
    assert asked(stopper, [5, 3, 1.0, 1.1, 1.0, 1.1]) == [False, False, False, False, True, True]
    assert asked(stopper, [5, 3], trial="b") == [False, False], "each trial for itself"
    only_good = TrialPlateauStopper("loss", std=0.1, num_results=2, grace_period=2, metric_threshold=1, mode="min")
    assert asked(only_good, [3, 3, 3, 0.5, 0.5]) == [False, False, False, False, True]


def test_a_sweep_on_a_plateau_ends_when_its_best_values_no_longer_change():
    stopper = ExperimentPlateauStopper("loss", std=0.01, top=3, mode="min", patience=2)
    assert asked(stopper, [1.0, 5.0, 1.0, 1.001]) == [False, False, False, False]  # the best three: 1, 1, 1.001
    assert asked(stopper, [4.0]) == [False] and not stopper.stop_all()
    assert asked(stopper, [4.0], trial="b") == [True] and stopper.stop_all()
    better = ExperimentPlateauStopper("acc", std=0.01, top=2, mode="max", patience=1)
    # The metric is flat at the second and the fourth report, but there the best two have just improved.
    assert asked(better, [0.5, 0.5, 0.9, 0.9], metric="acc") == [False, False, False, False]
    assert asked(better, [0.1], metric="acc") == [True]


def test_a_timeout_ends_all_and_keeps_what_is_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("rtrain.tune.stopper.time.monotonic", lambda: now[0])
    stopper = TimeoutStopper(datetime.timedelta(seconds=10))
    assert not stopper.stop_all()
    now[0] = 107.0
    assert not stopper.stop_all()
    again = pickle.loads(pickle.dumps(stopper))
    now[0] = 200.0
    assert not again.stop_all(), "three seconds are left"
    now[0] = 203.0
    assert again.stop_all() and stopper.stop_all()


def test_combined_ends_when_one_does_and_all_hear_each_report():
    plateau = TrialPlateauStopper("loss", std=0, num_results=2, grace_period=2)
    both = CombinedStopper(MaximumIterationStopper(2), plateau)
    assert asked(both, [1, 2, 2]) == [False, True, True] and plateau._seen["a"] == 3
    assert both.per_trial and not CombinedStopper(NoopStopper(), TimeoutStopper(5)).per_trial

    class StopsAlways(Stopper):
        def __call__(self, trial_id, result):
            return True

    assert not CombinedStopper(NoopStopper(), StopsAlways()).per_trial and not StopsAlways().stop_all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MaximumIterationStopper(0), "max_iter is 0"),
        (lambda: TrialPlateauStopper("a", metric_threshold=1), "metric_threshold needs a mode"),
        (lambda: ExperimentPlateauStopper("a", mode="up"), "mode is 'up'"),
        (lambda: ExperimentPlateauStopper("a", top=1), "top is 1"),
        (lambda: TimeoutStopper(0), "timeout is 0"),
        (lambda: FunctionStopper(3), "takes a function"),
        (lambda: CombinedStopper(3), "takes stoppers, not 3"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
