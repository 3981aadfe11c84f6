"""The checkpoint of a donor from which a moved trial starts, while the donor's retention deletes older ones."""

import json
from types import SimpleNamespace

from rtrain._http import NotFound
from rtrain.tune import RunConfig, _file
from rtrain.tune._runs import TrialRuns
from rtrain.tune._trainable import Trials, Wrapped
from rtrain.tune._trial import Leg, Trial


class HeadThatDeletes:
    """A head whose run commits the checkpoint `new` between the list request and the mark on `old`. Then `old` is
    being deleted, and the mark is too late. The head answers it with 200, as it answers a mark in time.
    """

    def __init__(self) -> None:
        self.listed = 0
        self.marked: list[str] = []

    def items(self, route: str) -> list[dict[str, object]]:
        self.listed += 1
        old = {"directory": "old", "path": "/run/old", "latest": self.listed == 1, "deleting": self.listed > 1, "metrics": {}}
        new = {"directory": "new", "path": "/run/new", "latest": True, "deleting": False, "metrics": {"training_iteration": 2}}
        return [old] if self.listed == 1 else [old, new]

    def put(self, route: str, content: bytes) -> None:
        assert json.loads(content)["status"] == "HELD"
        self.marked.append(route.rsplit("held-", 1)[1])


def test_a_mark_that_comes_too_late_holds_nothing_and_the_newer_checkpoint_is_taken():
    head = HeadThatDeletes()
    runs = TrialRuns(head, None, SimpleNamespace(wrapped=SimpleNamespace(trainable=None)))
    trial = Trial("t", "t", {}, {}, [Leg("t-2", {}, resume_from="donor")])
    checkpoint = runs._donor(trial, [Leg("donor", {}, run_id="7")])
    assert checkpoint.path == "/run/new" and trial.leg.base == {"training_iteration": 2.0}
    assert head.marked == ["old", "new"] and trial.leg.holds == "/v1/runs/7/values/held-new"


class Keeping:
    """A head that stores values, with one checkpoint in each of its runs."""

    def __init__(self, *runs: str) -> None:
        self.runs, self.values = runs, {}

    def items(self, route: str) -> list[dict[str, object]]:
        run = route.split("/")[3]
        if run not in self.runs:
            raise NotFound("not_found", "no such run")
        return [{"directory": "c", "path": f"/{run}/c", "latest": True, "deleting": False, "metrics": {"time_total_s": 4}}]

    def put(self, route: str, content: bytes) -> None:
        self.values[route] = json.loads(content)["status"]


def moved(number: int, *earlier: Leg) -> Trial:
    return Trial(f"t{number}", f"t{number}", {}, {}, [*earlier, Leg(f"t{number}-2", {}, resume_from="donor")])


def test_a_checkpoint_that_two_trials_start_from_is_held_until_both_need_it_no_more():
    head, trials = Keeping("7"), [moved(1), moved(2)]
    runs = TrialRuns(head, None, SimpleNamespace(wrapped=SimpleNamespace(trainable=SimpleNamespace(validation_config=1))))
    for trial in trials:
        assert runs._donor(trial, [Leg("donor", {}, run_id="7")]).path == "/7/c"
    runs.release(trials[0], trials)
    assert head.values == {"/v1/runs/7/values/held-c": "HELD"}
    kept = [_file.trial_of(_file._trial_json(trial)) for trial in trials]  # a driver that restores the sweep has these
    runs.release(kept[0], kept)
    assert head.values == {"/v1/runs/7/values/held-c": "HELD"}, "the first holds it no more"
    runs.release(kept[1], kept)
    assert head.values == {"/v1/runs/7/values/held-c": "FREE"}


def test_a_trial_whose_donor_is_gone_goes_on_from_its_own_checkpoint_or_begins(capsys):
    head = Keeping("3")
    runs = TrialRuns(head, None, SimpleNamespace(wrapped=SimpleNamespace(trainable=None)))
    own, donor = Leg("t1", {}, run_id="3"), Leg("donor", {}, run_id="7")
    trial = moved(1, own)
    assert runs._donor(trial, [own, donor]).path == "/3/c" and trial.leg.base == {"time_total_s": 4.0}
    assert runs._donor(moved(2), [donor]) is None
    assert "t2 starts at its beginning: donor has no checkpoint any more" in capsys.readouterr().err


def test_a_run_is_told_which_part_of_the_sweep_ends_it_and_nothing_when_a_person_does():
    asked = []
    head = SimpleNamespace(post=lambda route, body: asked.append((route, body)))
    runs = TrialRuns(head, None, SimpleNamespace(wrapped=SimpleNamespace(trainable=None)))
    for ending in ("scheduler", "interrupt"):
        runs.stop(Trial("t", "t", {}, {}, [Leg("t", {}, run_id="7")], ending=ending))
    assert asked == [("/v1/runs/7/stop", {"for": "scheduler"}), ("/v1/runs/7/stop", {})]


def test_the_run_of_a_trial_has_a_label_with_the_name_of_its_sweep():
    trials = Trials(Wrapped(lambda config: None), RunConfig(labels={"team": "vision"}), "sweep-1", None, None, None, None)
    trials.prepare()
    trainer = trials.trainer(Trial("t", "t", {}, {}, [Leg("t-1", {"lr": 0.1})]), None)
    assert trainer.run_config.labels == {"team": "vision", "rtrain.sweep": "sweep-1"}
