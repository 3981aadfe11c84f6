"""The decisions of schedulers, compared with results computed by hand."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, field

import pytest
from rtrain import tune
from rtrain.tune.schedulers import (
    ASHAScheduler,
    AsyncHyperBandScheduler,
    Exploit,
    FIFOScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    TrialScheduler,
    create_scheduler,
)


@dataclass
class Trial:
    trial_id: str
    config: dict = field(default_factory=dict)
    status: str = "RUNNING"
    last_result: dict = field(default_factory=dict)


class Trials:
    """Trials by name, and the scheduler that judges them."""

    def __init__(self, scheduler, names, configs=None):
        self.scheduler = scheduler
        self.all = {name: Trial(name, (configs or {}).get(name, {})) for name in names}
        self.kept = set(names)
        for one in self.all.values():
            scheduler.on_trial_add(self, one)

    def get_trials(self):
        return list(self.all.values())

    def has_checkpoint(self, trial_id):
        return trial_id in self.kept

    def report(self, name, time, **metrics):
        return self.scheduler.on_trial_result(self, self.all[name], {"training_iteration": time, **metrics})


def test_fifo_lets_all_go_on():
    assert Trials(FIFOScheduler(), "a").report("a", 1, loss=9) == TrialScheduler.CONTINUE


def test_asha_keeps_the_best_third_of_each_rung():
    trials = Trials(ASHAScheduler(metric="acc", mode="max", max_t=9, grace_period=1, reduction_factor=3), "abcdef")
    # Rung 1, in the order of arrival. The best ceil(n / 3) of n trials continue.
    assert trials.report("a", 1, acc=0.5) == "CONTINUE"  # 1 of 1
    assert trials.report("b", 1, acc=0.4) == "STOP"  # 2nd of 2; one may continue
    assert trials.report("c", 1, acc=0.6) == "CONTINUE"  # the best of 3
    assert trials.report("d", 1, acc=0.55) == "CONTINUE"  # 2nd of 4; two may continue
    assert trials.report("e", 1, acc=0.52) == "STOP"  # 3rd of 5; two may continue
    assert trials.report("a", 2, acc=0.1) == "CONTINUE"  # no decision between two rungs
    # rung 3
    assert trials.report("c", 3, acc=0.7) == "CONTINUE"
    assert trials.report("d", 3, acc=0.9) == "CONTINUE"
    assert trials.report("a", 3, acc=0.6) == "STOP"
    # the end
    assert trials.report("d", 9, acc=0.95) == "STOP"
    assert trials.scheduler.last_time() == ("training_iteration", 9)
    assert "1: 5 trials, 3: 3 trials, 9: 1 trials" in trials.scheduler.debug_string()


def test_asha_takes_small_values_for_good_where_mode_is_min_and_nan_for_the_worst():
    trials = Trials(ASHAScheduler(metric="loss", mode="min", max_t=8, reduction_factor=2), "abcd")
    assert trials.report("a", 1, loss=2.0) == "CONTINUE"
    assert trials.report("b", 1, loss=1.0) == "CONTINUE"
    assert trials.report("c", 1, loss=math.nan) == "STOP"
    assert trials.report("d", 1) == "CONTINUE", "a report without the metric is no verdict"


def test_a_trial_that_jumps_over_a_rung_is_judged_at_the_highest_that_it_reached():
    trials = Trials(ASHAScheduler(metric="acc", mode="max", max_t=100, grace_period=1, reduction_factor=2), "ab")
    assert trials.report("a", 5, acc=0.5) == "CONTINUE"  # rung 4
    assert trials.report("a", 6, acc=0.6) == "CONTINUE"
    assert trials.report("b", 4, acc=0.4) == "STOP"
    assert [len(scores) for _, scores in reversed(trials.scheduler._brackets[0].rungs)] == [0, 0, 2, 0, 0, 0, 0]


def test_asha_deals_trials_out_among_brackets_most_to_the_one_that_begins_first():
    scheduler = AsyncHyperBandScheduler(metric="acc", mode="max", max_t=16, reduction_factor=2, brackets=2)
    Trials(scheduler, "abcdef")
    assert [scheduler._bracket_of[name] for name in "abcdef"] == [0, 0, 1, 0, 0, 1]
    assert [[rung for rung, _ in reversed(one.rungs)] for one in scheduler._brackets] == [[1, 2, 4, 8, 16], [2, 4, 8, 16]]


def test_the_median_rule_stops_a_trial_below_the_median_of_the_others_means():
    rule = MedianStoppingRule("training_iteration", metric="acc", mode="max", grace_period=2, min_samples_required=2)
    trials = Trials(rule, "abcd")
    for time, a, b, c in ((1, 0.1, 0.1, 0.1), (2, 0.4, 0.6, 0.5), (3, 0.6, 0.8, 0.7)):
        assert trials.report("a", time, acc=a) == "CONTINUE"
        assert trials.report("b", time, acc=b) == "CONTINUE"
        assert trials.report("c", time, acc=c) == "CONTINUE"
    assert trials.report("d", 1, acc=0.0) == "CONTINUE", "before the grace period"
    # At 2 the means of the others are 0.4, 0.6 and 0.5. The median is 0.5.
    assert trials.report("d", 2, acc=0.5) == "CONTINUE"
    # At 3 they are 0.5, 0.7 and 0.6. The median is 0.6, and d's best value is 0.5.
    assert trials.report("d", 3, acc=0.1) == "STOP"


def test_the_median_rule_waits_for_enough_others():
    rule = MedianStoppingRule("training_iteration", metric="acc", mode="max", grace_period=0, min_samples_required=2)
    trials = Trials(rule, "ab")
    assert trials.report("a", 1, acc=0.9) == "CONTINUE"
    assert trials.report("b", 1, acc=0.1) == "CONTINUE"


def population(**options):
    return PopulationBasedTraining(
        "training_iteration",
        "acc",
        "max",
        perturbation_interval=2,
        hyperparam_mutations={"lr": [0.1, 0.2, 0.4]},
        seed=1,
        **options,
    )


def test_population_based_training_moves_the_worst_to_the_best():
    trials = Trials(population(resample_probability=0), "abcd", {name: {"lr": 0.2, "id": name} for name in "abcd"})
    assert trials.report("a", 1, acc=0.9) == "CONTINUE", "not before the interval"
    assert trials.report("a", 2, acc=0.9) == "CONTINUE"
    # b is the worst of two, c the middle one of three, d the worst of four.
    moved = [trials.report(name, 2, acc=acc) for name, acc in (("b", 0.5), ("c", 0.7), ("d", 0.1))]
    assert [isinstance(one, Exploit) for one in moved] == [True, False, True] and moved[1] == "CONTINUE"
    assert {moved[0].donor_id, moved[2].donor_id} == {"a"}
    for one in (moved[0], moved[2]):
        assert one.config["id"] == "a" and one.config["lr"] in (0.1, 0.4), "the neighbour of the donor's value"
    assert trials.all["a"].config["lr"] == 0.2


def test_a_trial_without_a_checkpoint_is_no_donor():
    trials = Trials(population(), "ab", {name: {"lr": 0.2} for name in "ab"})
    trials.kept = {"b"}
    assert trials.report("a", 2, acc=0.9) == "CONTINUE"
    assert trials.report("b", 2, acc=0.1) == "CONTINUE"


def test_numbers_are_multiplied_and_what_is_drawn_comes_from_the_domain():
    changing = PopulationBasedTraining(
        hyperparam_mutations={"lr": tune.uniform(0, 1), "deep": {"n": tune.randint(1, 5)}, "f": lambda: 7},
        resample_probability=0,
        seed=2,
    )
    explored = changing.explore({"lr": 0.5, "deep": {"n": 10}, "f": 100, "other": 1})
    assert (
        explored["lr"] in (0.4, 0.6)
        and explored["deep"]["n"] in (8, 12)
        and explored["f"] in (80, 120)
        and explored["other"] == 1
    )
    drawing = PopulationBasedTraining(
        hyperparam_mutations={"lr": tune.uniform(0, 1), "f": lambda: 7}, resample_probability=1, seed=2
    )
    explored = drawing.explore({"lr": 50, "f": 1})
    assert 0 <= explored["lr"] <= 1 and explored["f"] == 7


def test_metric_and_mode_come_from_one_place_and_must_be_there():
    with pytest.raises(ValueError, match="needs a metric and a mode"):
        ASHAScheduler().set_search_properties(None, None)
    with pytest.raises(ValueError, match=r"AsyncHyperBandScheduler\(metric='a'\) and TuneConfig\(metric='b'\) differ"):
        ASHAScheduler(metric="a", mode="max").set_search_properties("b", None)
    assert FIFOScheduler().set_search_properties(None, None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ASHAScheduler(max_t=0), "max_t is 0; it is a number above 0"),
        (lambda: ASHAScheduler(max_t=2, grace_period=5), "max_t is 2, which is below grace_period, 5"),
        (lambda: ASHAScheduler(reduction_factor=1), "reduction_factor is 1"),
        (lambda: ASHAScheduler(brackets=0), "brackets is 0"),
        (lambda: ASHAScheduler(mode="best"), "mode is 'best'"),
        (lambda: MedianStoppingRule(hard_stop=False), "hard_stop=False"),
        (lambda: PopulationBasedTraining(), "needs hyperparam_mutations"),
        (lambda: PopulationBasedTraining(hyperparam_mutations={"a": 3}), r"hyperparam_mutations\['a'\] is 3"),
        (lambda: PopulationBasedTraining(hyperparam_mutations={"a": [1]}, quantile_fraction=0.7), "quantile_fraction is 0.7"),
        (lambda: create_scheduler("magic"), "there is no scheduler 'magic'; there are: fifo, async_hyperband"),
        (lambda: create_scheduler("pb2"), "rtrain has no PB2: ASHAScheduler, MedianStoppingRule"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises((ValueError, NotImplementedError), match=message):
        make()


def test_a_scheduler_goes_on_after_pickling():
    trials = Trials(create_scheduler("asha", metric="acc", mode="max", max_t=8, reduction_factor=2), "ab")
    trials.report("a", 1, acc=0.9)
    trials.scheduler = pickle.loads(pickle.dumps(trials.scheduler))
    assert trials.report("b", 1, acc=0.1) == "STOP"
