"""The decisions of a sweep, without a cluster."""

from __future__ import annotations

import pickle

import pytest
from rtrain import tune
from rtrain._where import ClusterInfo
from rtrain.tune import _file, _tuner
from rtrain.tune._observed import Observed
from rtrain.tune._sweep import Limits, Sweep
from rtrain.tune._table import Table, lines
from rtrain.tune.callback import Callbacks
from rtrain.tune.progress_reporter import CLIReporter
from rtrain.tune.schedulers import ASHAScheduler, Exploit, FIFOScheduler, TrialScheduler
from rtrain.tune.search import BasicVariantGenerator, Searcher
from rtrain.tune.stopper import ExperimentPlateauStopper, MaximumIterationStopper


def sweep(space=None, *, scheduler=None, searcher=None, stopper=None, **limits):
    space = space if space is not None else {"lr": tune.grid_search([1, 2, 3])}
    limits_of_sweep = Limits(metric="loss", mode="min", **limits)
    searcher = searcher or BasicVariantGenerator(random_state=1)
    searcher.set_search_properties("loss", "min", space, num_samples=limits_of_sweep.num_samples)
    scheduler = scheduler or FIFOScheduler()
    scheduler.set_search_properties("loss", "min")
    return Sweep(limits_of_sweep, searcher, scheduler, stopper, space, "abc", run_name=lambda trial: f"s-{trial.trial_id}")


def ids(trials):
    return [one.trial_id[-1] for one in trials]


def test_trials_start_as_far_as_the_limit_and_then_one_for_each_that_ends():
    here = sweep(max_live=2)
    assert [(one.trial_id, one.config, one.leg.run_name) for one in here.to_start()] == [
        ("abc_00000", {"lr": 1}, "s-abc_00000"),
        ("abc_00001", {"lr": 2}, "s-abc_00001"),
    ]
    assert here.to_start() == []
    here.reported("abc_00000", {"loss": 1})
    assert here.trial("abc_00000").status == "RUNNING" and here.trial("abc_00001").status == "PENDING"
    here.ended("abc_00000", "succeeded")
    assert ids(here.to_start()) == ["2"] and not here.done
    for name in ("abc_00001", "abc_00002"):
        here.ended(name, "succeeded")
    assert here.to_start() == [] and here.done
    assert [one.status for one in here.trials] == ["TERMINATED"] * 3


def test_a_trial_that_fails_leaves_the_others_alone_unless_fail_fast():
    error = RuntimeError("Training failed due to worker errors:\n[Rank 0 Error Snippet]:\nValueError: no such column")
    here = sweep()
    here.to_start()
    assert here.ended("abc_00000", "failed", error) == []
    assert here.trial("abc_00000").status == "ERROR" and here.trial("abc_00000").why == "ValueError: no such column"
    fast = sweep(fail_fast=True, max_live=2)
    fast.to_start()
    assert ids(fast.ended("abc_00000", "failed", error)) == ["1"]
    assert fast.to_start() == [] and not fast.done
    fast.ended("abc_00001", "stopped")
    assert fast.done and fast.trial("abc_00001").status == "PENDING", "it is not finished: a restored sweep goes on with it"


def test_a_stop_by_the_scheduler_is_no_error_and_one_by_somebody_else_is():
    here = sweep(scheduler=ASHAScheduler(max_t=8, reduction_factor=2))
    here.to_start()
    assert here.reported("abc_00000", {"loss": 1, "training_iteration": 1}) == []
    assert ids(here.reported("abc_00001", {"loss": 2, "training_iteration": 1})) == ["1"]
    assert here.reported("abc_00001", {"loss": 2, "training_iteration": 2}) == [], "asked already"
    here.ended("abc_00001", "stopped", RuntimeError("stopped"))
    assert here.trial("abc_00001").status == "TERMINATED" and here.trial("abc_00001").why == "stopped: scheduler"
    here.ended("abc_00000", "stopped", RuntimeError("stopped by ana"))
    assert here.trial("abc_00000").status == "ERROR"


def test_a_trial_that_ends_itself_at_the_scheduler_s_last_time_is_not_stopped_while_it_ends():
    here = sweep(scheduler=ASHAScheduler(max_t=8, reduction_factor=2))
    here.to_start()
    assert here.reported("abc_00000", {"loss": 1, "training_iteration": 8}) == []
    here.ended("abc_00000", "succeeded")
    assert here.trial("abc_00000").why == "training_iteration 8 reached"


def test_the_time_budget_ends_all_and_starts_none():
    here = sweep(max_live=2, time_budget_s=10)
    here.to_start()
    assert here.tick(9.9) == [] and ids(here.tick(10.1)) == ["0", "1"] and here.tick(11) == []
    assert here.to_start() == []
    for name in ("abc_00000", "abc_00001"):
        here.ended(name, "stopped")
    assert here.done and [one.status for one in here.trials] == ["TERMINATED"] * 2


def test_a_stopper_ends_a_trial_or_all():
    here = sweep(stopper=MaximumIterationStopper(2))
    here.to_start()
    assert here.reported("abc_00000", {"training_iteration": 1}) == []
    assert ids(here.reported("abc_00000", {"training_iteration": 2})) == ["0"]
    whole = sweep(stopper=ExperimentPlateauStopper("loss", top=2))
    whole.to_start()
    assert whole.reported("abc_00000", {"loss": 1}) == []
    assert ids(whole.reported("abc_00001", {"loss": 1})) == ["1", "0", "2"]


class Moving(FIFOScheduler):
    def on_trial_result(self, tune_controller, trial, result):
        return Exploit("abc_00000", {"lr": 9}) if trial.trial_id == "abc_00001" else self.CONTINUE


def test_an_exploited_trial_goes_on_as_another_run_from_its_donor():
    here = sweep(scheduler=Moving())
    here.to_start()
    assert ids(here.reported("abc_00001", {"loss": 5})) == ["1"]
    here.ended("abc_00001", "stopped")
    moved = here.trial("abc_00001")
    assert (moved.status, moved.config, moved.leg.run_name, moved.leg.resume_from) == (
        "PENDING", {"lr": 9}, "s-abc_00001-2", "abc_00000",
    )  # fmt: skip
    assert ids(here.to_start()) == ["1"]
    here.reported("abc_00001", {"loss": 5})
    here.ended("abc_00001", "succeeded")
    assert here.trial("abc_00001").status == "TERMINATED", "it had ended by itself before it could be stopped"


def test_a_metric_that_nobody_reports_is_named_with_those_that_are():
    here = sweep()
    here.to_start()
    here.reported("abc_00000", {"Loss": 1, "acc": 2, "training_iteration": 1})
    with pytest.raises(
        tune.TuneError, match="the metric 'loss' was never reported: trial abc_00000 ended, and reported: Loss, acc"
    ):
        here.ended("abc_00000", "succeeded")
    other = sweep()
    other.to_start()
    other.reported("abc_00001", {"loss": 1})
    other.reported("abc_00000", {"acc": 1})
    other.ended("abc_00000", "succeeded")


class Two(Searcher):
    def __init__(self, answers):
        super().__init__()
        self.answers, self.heard = list(answers), []

    def suggest(self, trial_id):
        return self.answers.pop(0) if self.answers else Searcher.FINISHED

    def on_trial_result(self, trial_id, result):
        self.heard.append((trial_id[-1], result["loss"]))

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.heard.append((trial_id[-1], "error" if error else "end"))


def test_a_searcher_of_one_s_own_is_asked_and_told():
    here = sweep({"fixed": 1, "lr": tune.uniform(0, 1)}, searcher=Two([{"lr": 0.5}, None, {"lr": 0.6}]), num_samples=10)
    assert [one.config for one in here.to_start()] == [{"fixed": 1, "lr": 0.5}]
    assert [one.config for one in here.to_start()] == [{"fixed": 1, "lr": 0.6}]
    here.reported("abc_00000", {"loss": 3})
    here.ended("abc_00000", "succeeded")
    here.ended("abc_00001", "failed", RuntimeError("x"))
    assert here.to_start() == [] and here.done
    assert here.searcher.heard == [("0", 3), ("0", "end"), ("1", "error")]
    stuck = sweep(searcher=Two([None]), num_samples=3)
    with pytest.raises(tune.TuneError, match="Two.suggest proposes nothing although no trial is alive"):
        stuck.to_start()


def test_a_searcher_that_gives_something_else_and_names_that_are_not_unlike_are_refused():
    with pytest.raises(tune.TuneError, match=r"Two.suggest gave \[1\]; it gives a dict, None, or Searcher.FINISHED"):
        sweep(searcher=Two([[1]])).to_start()
    same = sweep()
    same.run_name = lambda trial: "s-one"
    with pytest.raises(tune.TuneError, match="two trials would share the run s-one"):
        same.to_start()


def test_an_unknown_decision_is_refused():
    class Pausing(TrialScheduler):
        def on_trial_result(self, tune_controller, trial, result):
            return "PAUSE"

    here = sweep(scheduler=Pausing())
    here.to_start()
    with pytest.raises(tune.TuneError, match="Pausing decided 'PAUSE'"):
        here.reported("abc_00000", {"loss": 1})


def test_a_sweep_s_file_brings_back_what_it_kept(tmp_path):
    here = sweep(
        {"f": tune.grid_search([len, max]), "n": tune.uniform(0, 1)}, scheduler=ASHAScheduler(max_t=8, reduction_factor=2)
    )
    here.to_start()
    here.reported("abc_00000", {"loss": float("nan"), "training_iteration": 1})
    here.ended("abc_00001", "failed", ValueError("bad"))
    file = _file.SweepFile(tmp_path, "s", None)
    file.save(here)
    assert [one.name for one in tmp_path.iterdir()] == ["sweep.json"]
    again = sweep()
    _file.take_over(again, _file.read(tmp_path))
    assert [one.config for one in again.trials] == [one.config for one in here.trials]
    assert [one.status for one in again.trials] == ["RUNNING", "ERROR"] and str(again.trials[1].error) == "bad"
    assert again.trials[0].last_result["loss"] != again.trials[0].last_result["loss"]
    assert again.scheduler.debug_string() == here.scheduler.debug_string()
    with pytest.raises(tune.TuneError, match="is not the directory of a sweep: it has no sweep.json"):
        _file.read(tmp_path / "other")


def test_a_sweep_has_one_driver_at_a_time(tmp_path):
    file = _file.SweepFile(tmp_path / "s", "s", None)
    other = _file.SweepFile(tmp_path / "s", "s", None)
    message = r"another driver \(process \d+ on .*\) runs the sweep in .*/s: wait"
    with file.held(), pytest.raises(tune.TuneError, match=message), other.held():
        pass
    with file.held():
        pass


def test_the_table_shows_what_differs_and_the_best_at_the_end():
    here = sweep({"opt": {"lr": tune.grid_search([0.1, 0.2])}, "fixed": 3})
    here.to_start()
    here.reported("abc_00000", {"loss": 0.5, "acc": 0.25, "training_iteration": 4, "time_total_s": 1.5})
    here.ended("abc_00000", "succeeded")
    here.ended("abc_00001", "failed", ValueError("bad column"))
    here.elapsed_s = 12
    assert lines("s", here, CLIReporter(), final=True) == [
        "sweep s has ended: 1 TERMINATED, 1 ERROR; 12 s",
        "  trial      status      lr   loss  acc   iter  total s",
        "  abc_00001  ERROR       0.2",
        "  abc_00000  TERMINATED  0.1  0.5   0.25  4     1.5",
        "  abc_00001 failed: bad column",
        "  best: abc_00000 with loss=0.5 (opt/lr=0.1)",
    ]
    chosen = CLIReporter(metric_columns={"acc": "accuracy"}, parameter_columns=["opt/lr"], max_progress_rows=1)
    assert lines("s", here, chosen, final=False) == [
        "sweep s: 1 TERMINATED, 1 ERROR; 12 s",
        "  trial      status  opt/lr  accuracy",
        "  abc_00001  ERROR   0.2",
        "  ... and 1 more trials",
    ]


def test_the_table_comes_with_a_new_status_soon_and_with_mere_reports_seldom(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr("rtrain.tune.progress_reporter.time.monotonic", lambda: now[0])
    here, table = sweep(), Table("s", 1, CLIReporter())
    table.begin(here, 3)
    here.to_start()

    def shown_after(seconds):
        now[0] += seconds
        table.show(here)
        return "sweep s" in capsys.readouterr().err

    assert shown_after(0) and not shown_after(100), "nothing has changed"
    here.reported("abc_00000", {"loss": 1})
    assert shown_after(1), "it runs by now"
    here.reported("abc_00000", {"loss": 1})
    assert not shown_after(6) and shown_after(25)
    here.ended("abc_00000", "succeeded")
    assert not shown_after(1) and shown_after(5)
    Table("s", 0, CLIReporter()).show(here, final=True)
    assert capsys.readouterr().err == ""
    earlier = CLIReporter.__new__(CLIReporter)  # an object that version 0.1.0 pickled
    given = CLIReporter()
    earlier.__dict__.update(metric_columns=None, parameter_columns=None, rows=20, every_s=5.0, metric=None, mode=None)
    for reporter in (earlier, pickle.loads(pickle.dumps(given))):
        later = Table("s", 1, reporter)
        later.begin(here, 3)
        later.show(here, final=True)
        assert "sweep s has ended" in capsys.readouterr().err
        pickle.dumps(reporter)


def test_the_head_s_own_storage_by_its_name_is_as_none(tmp_path):
    for info in (ClusterInfo("head:7433", local=False), ClusterInfo("127.0.0.1:1", local=True, storage=str(tmp_path))):
        named, left_out = (_tuner._place(tune.RunConfig(storage_path=path), "widths", info) for path in ("cluster://", None))
        assert named == left_out


class Choosing(FIFOScheduler):
    def __init__(self, choose):
        super().__init__()
        self.choose, self.removed = choose, []

    def choose_trial_to_run(self, tune_controller):
        return self.choose(tune_controller)

    def on_trial_remove(self, tune_controller, trial):
        self.removed.append(trial.trial_id[-1])


def test_a_scheduler_that_chooses_is_asked_and_may_let_trials_wait():
    def newest_alone(controller):
        waiting = [one for one in controller.get_trials() if one.status == "PENDING" and not one.started]
        return None if controller.live else waiting[-1]

    here = sweep(scheduler=Choosing(newest_alone), stopper=MaximumIterationStopper(9), max_live=2, time_budget_s=5)
    assert ids(here.to_start()) == ["2"] and here.to_start() == [], "one runs, and two wait"
    here.ended("abc_00002", "succeeded")
    assert ids(here.to_start()) == ["1"]
    assert ids(here.tick(6)) == ["1"] and here.scheduler.removed == ["0"]
    assert (here.trial("abc_00000").status, here.trial("abc_00000").why) == ("TERMINATED", "stopped: budget")
    here.ended("abc_00001", "stopped")
    assert here.done


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        (lambda controller: None, "Choosing.choose_trial_to_run chose none of 3 trials that wait, and none runs"),
        (
            lambda controller: "abc_00000",
            "chose abc_00000, which does not wait; return one of the trials whose status is PENDING",
        ),
    ],
)
def test_a_choice_that_cannot_be_carried_out_is_refused(choose, message):
    with pytest.raises(tune.TuneError, match=message):
        sweep(scheduler=Choosing(choose)).to_start()


def test_pausing_is_refused_with_the_reason():
    class Pausing(TrialScheduler):
        def on_trial_result(self, tune_controller, trial, result):
            return self.PAUSE

    here = sweep(scheduler=Pausing())
    here.to_start()
    with pytest.raises(tune.TuneError, match="decided 'PAUSE'.* A trial is a run of the cluster, which is not paused"):
        here.reported("abc_00000", {"loss": 1})


def test_what_callbacks_hear_of_a_run_is_each_failure_each_start_and_each_commit_once():
    seen = Observed()
    assert seen.recovered({"state": "RUNNING", "failures": 0, "max_failures": 2}) == []
    assert seen.recovered({"state": "RUNNING", "failures": 2, "max_failures": 2}) == ["on_trial_recover"] * 2
    assert seen.recovered({"state": "FAILED", "failures": 3, "max_failures": 2}) == [], "that is its end"
    assert seen.recovered({"state": "FAILED", "failures": 2, "max_failures": -1}) == []
    starts = [{"number": number, "started": number < 4 or None, "from": "c" if number > 1 else None} for number in (1, 2, 3, 4)]
    assert seen.restored(starts, moved=False) == ["on_trial_restore"] * 2 and seen.attempt == 3
    assert seen.restored(starts, moved=False) == [] and Observed().restored(starts[:1], moved=True) == ["on_trial_restore"]
    seen.reported = [(name, {}) for name in "abcd"]
    assert [name for name, _ in seen.committed({"b"}, over=False)] == ["b"], "the first is lost, since a later one is committed"
    assert [name for name, _ in seen.reported] == ["c", "d"]
    assert [name for name, _ in seen.committed({"d"}, over=True)] == ["d"] and seen.reported == []


def test_a_callback_gets_its_arguments_by_their_names_or_in_their_order():
    heard = []

    class Named(tune.Callback):
        def setup(self):
            heard.append("setup")

        def on_trial_complete(self, trial, **info):
            heard.append((trial, sorted(info)))

        def on_trial_error(self, number, all_of_them, the_one, **info):
            heard.append((number, all_of_them, the_one))

    hooks = Callbacks([Named()])
    hooks.call("setup", stop=None, num_samples=1, total_num_samples=2)
    for hook in ("on_trial_complete", "on_trial_error"):
        hooks.call(hook, iteration=1, trials=[], trial="t")
    assert heard == ["setup", ("t", ["iteration", "trials"]), (1, [], "t")]
    with pytest.raises(TypeError):
        hooks.call("on_trial_start", trial="t")
