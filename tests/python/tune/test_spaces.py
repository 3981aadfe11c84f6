"""Search spaces: drawn values, products of grids, and errors."""

from __future__ import annotations

import random

import pytest
from rtrain import tune
from rtrain.tune.search import BasicVariantGenerator, ConcurrencyLimiter, Searcher
from rtrain.tune.search._variants import SpaceError, grid_size, variant


def configs(space, count, seed=1, **options):
    return [variant(space, seed, place, **options).config for place in range(count)]


def test_grids_are_crossed_as_nested_loops_are_and_repeated():
    space = {"a": tune.grid_search([1, 2]), "deep": {"b": tune.grid_search(["x", "y"])}, "c": 7}
    assert grid_size(space) == 4
    assert [(one["a"], one["deep"]["b"]) for one in configs(space, 6)] == [
        (1, "x"), (1, "y"), (2, "x"), (2, "y"), (1, "x"), (1, "y"),
    ]  # fmt: skip
    assert variant(space, 1, 3).differing == {"a": 2, "deep/b": "y"}
    assert space["a"] == {"grid_search": [1, 2]}, "the space itself is not touched"


def test_a_grid_may_lie_in_a_list_and_be_written_by_hand():
    space = {"layers": [tune.grid_search([8, 16]), 4], "lr": {"grid_search": [0.1]}}
    assert [one["layers"] for one in configs(space, 2)] == [[8, 4], [16, 4]]
    assert configs(space, 1)[0]["lr"] == 0.1


def test_the_same_seed_draws_the_same_and_a_variant_needs_none_before_it():
    space = {"lr": tune.loguniform(1e-4, 1e-1), "n": tune.randint(0, 1000)}
    assert configs(space, 5) == configs(space, 5)
    assert configs(space, 5) != configs(space, 5, seed=2)
    assert variant(space, 1, 4).config == configs(space, 5)[4]
    assert len({one["lr"] for one in configs(space, 50)}) == 50


def test_a_constant_grid_draws_once_for_each_round():
    space = {"a": tune.grid_search([1, 2]), "lr": tune.uniform(0, 1)}
    rates = [one["lr"] for one in configs(space, 4, constant_grid_search=True)]
    assert rates[0] == rates[1] != rates[2] == rates[3]


@pytest.mark.parametrize(
    ("domain", "fits"),
    [
        (tune.uniform(-1, 2), lambda x: -1 <= x <= 2),
        (tune.quniform(0, 1, 0.25), lambda x: x in (0, 0.25, 0.5, 0.75, 1)),
        (tune.loguniform(1e-3, 1), lambda x: 1e-3 <= x <= 1),
        (tune.qloguniform(1e-2, 1, 0.01), lambda x: round(x * 100) == pytest.approx(x * 100)),
        (tune.randint(3, 5), lambda x: x in (3, 4)),
        (tune.qrandint(0, 10, 5), lambda x: x in (0, 5, 10)),
        (tune.lograndint(1, 100), lambda x: isinstance(x, int) and 1 <= x < 100),
        (tune.qlograndint(2, 8, 2), lambda x: x in (2, 4, 6, 8)),
        (tune.choice(["a", "b"]), lambda x: x in ("a", "b")),
    ],
)
def test_what_is_drawn_lies_within_the_bounds_and_reaches_them(domain, fits):
    rng = random.Random(3)
    samples = [domain.sample(rng) for _ in range(400)]
    assert all(fits(one) and domain.is_valid(one) for one in samples), samples
    if len(set(samples)) < 20:
        assert {str(one) for one in samples} == {str(one) for one in samples[:200]}, "all of the few values come up"


def test_a_logarithm_is_evenly_spread():
    rng = random.Random(3)
    below = sum(tune.loguniform(1e-4, 1).sample(rng) < 1e-2 for _ in range(2000))
    assert 900 < below < 1100
    normal = [tune.randn(10, 2).sample(rng) for _ in range(2000)]
    assert 9.8 < sum(normal) / 2000 < 10.2


def test_sample_from_reads_what_the_trial_has_drawn_whatever_their_order():
    space = {
        "twice": tune.sample_from(lambda spec: spec.config.width * 2),
        "again": tune.sample_from(lambda spec: spec["twice"] + spec.config["width"]),
        "width": tune.choice([3]),
        "alone": tune.sample_from(lambda: 5),
    }
    assert configs(space, 1) == [{"twice": 6, "again": 9, "width": 3, "alone": 5}]


def test_a_choice_may_hold_what_is_drawn_in_its_turn():
    space = {"optimiser": tune.choice([{"name": "sgd", "momentum": tune.choice([0.9])}])}
    assert configs(space, 1) == [{"optimiser": {"name": "sgd", "momentum": 0.9}}]
    with pytest.raises(SpaceError, match="o/a: a grid_search inside of a value that is drawn"):
        configs({"o": tune.choice([{"a": tune.grid_search([1])}])}, 1)


def test_functions_that_wait_for_each_other_are_named():
    circle = {
        "a": tune.sample_from(lambda spec: spec.config.b),
        "b": tune.sample_from(lambda spec: spec.config.a),
    }
    with pytest.raises(SpaceError, match="a, b wait for each other"):
        configs(circle, 1)
    with pytest.raises(SpaceError, match="a cannot be drawn: AttributeError: the config has no 'c'; there are: a"):
        configs({"a": tune.sample_from(lambda spec: spec.config.c)}, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tune.uniform(2, 1), "uniform: upper is 1, which is not above lower, 2"),
        (lambda: tune.uniform("a", 1), "uniform: lower is 'a'; it is a number"),
        (lambda: tune.loguniform(0, 1), "loguniform: lower is 0; a logarithm needs a bound above 0"),
        (lambda: tune.loguniform(1, 2, base=1), "loguniform: base is 1"),
        (lambda: tune.quniform(0, 1, 0), "quniform: q is 0; a step is above 0"),
        (lambda: tune.quniform(1, 2, 5), "quniform: q is 5, of which no multiple lies between"),
        (lambda: tune.randint(1, 2.5), "randint: upper is 2.5; it is a whole number"),
        (lambda: tune.randn(0, -1), "randn: sd is -1"),
        (lambda: tune.choice([]), "choice: the list of categories is empty"),
        (lambda: tune.choice("abc"), "choice takes a list of categories, not 'abc'"),
        (lambda: tune.grid_search([]), "grid_search: the list of values is empty"),
        (lambda: tune.sample_from(3), "sample_from takes a function, not 3"),
    ],
)
def test_wrong_bounds_name_the_parameter(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_numpy_s_numbers_are_numbers():
    numpy = pytest.importorskip("numpy")
    space = {
        "a": tune.uniform(numpy.float32(0), numpy.float64(1)),
        "b": tune.randint(numpy.int64(1), 3),
        "c": tune.choice(numpy.array([1, 2])),
        "d": tune.grid_search(numpy.logspace(-2, -1, 2)),
    }
    suggested = configs(space, 2)
    assert [round(float(one["d"]), 3) for one in suggested] == [0.01, 0.1] and type(suggested[0]["a"]) is float


def suggestions(searcher, space, **spec):
    searcher.set_search_properties("loss", "min", space, **spec)
    configs_of_trials = []
    while isinstance(one := searcher.suggest(f"t{len(configs_of_trials)}"), dict):
        configs_of_trials.append(one)
    return configs_of_trials, one


def test_num_samples_repeats_the_grid_and_points_come_first():
    space = {"a": tune.grid_search([1, 2]), "b": tune.uniform(0, 1)}
    suggested, last = suggestions(BasicVariantGenerator(random_state=4), space, num_samples=3)
    assert [one["a"] for one in suggested] == [1, 2] * 3 and last == Searcher.FINISHED
    assert len({one["b"] for one in suggested}) == 6
    first = BasicVariantGenerator(points_to_evaluate=[{"a": 2, "b": 0.5}, {"b": 0.1}], random_state=4)
    suggested, _ = suggestions(first, space, num_samples=1)
    assert suggested[0] == {"a": 2, "b": 0.5} and suggested[1]["b"] == 0.1 and len(suggested) == 4


def test_the_seed_comes_from_the_argument_the_environment_or_random(monkeypatch):
    space = {"b": tune.uniform(0, 1)}

    def suggested_by(**spec):
        return suggestions(BasicVariantGenerator(), space, num_samples=2, **spec)[0]

    assert suggested_by(seed=5) == suggested_by(seed=5) != suggested_by(seed=6)
    monkeypatch.setenv("RTRAIN_TUNE_SEED", "5")
    assert suggested_by() == suggested_by(seed=5)
    monkeypatch.setenv("RTRAIN_TUNE_SEED", "five")
    with pytest.raises(ValueError, match="RTRAIN_TUNE_SEED is 'five'"):
        suggested_by()
    monkeypatch.delenv("RTRAIN_TUNE_SEED")
    random.seed(9)
    before = suggested_by()
    random.seed(9)
    assert suggested_by() == before


class Counting(Searcher):
    def __init__(self):
        super().__init__()
        self.ended = []
        self.at = 0

    def suggest(self, trial_id):
        self.at += 1
        return {"n": self.at}

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.ended.append(trial_id)


def test_a_limit_lets_so_many_be_alive_and_a_batch_waits_for_all():
    limited = ConcurrencyLimiter(Counting(), 2)
    assert [limited.suggest(name) for name in "abc"] == [{"n": 1}, {"n": 2}, None]
    limited.on_trial_complete("a", {"loss": 1})
    assert limited.suggest("c") == {"n": 3}
    batch = ConcurrencyLimiter(Counting(), 2, batch=True)
    assert [batch.suggest(name) for name in "ab"] == [{"n": 1}, {"n": 2}]
    batch.on_trial_complete("a")
    assert batch.suggest("c") is None
    batch.on_trial_complete("b")
    assert batch.suggest("c") == {"n": 3} and batch.searcher.ended == ["a", "b"]
    with pytest.raises(ValueError, match="max_concurrent is 0"):
        ConcurrencyLimiter(Counting(), 0)


def test_searchers_that_are_not_there_say_what_is():
    from rtrain.tune.search.optuna import OptunaSearch

    with pytest.raises(NotImplementedError, match="rtrain has no OptunaSearch: .*derived from rtrain.tune.search.Searcher"):
        OptunaSearch()
    with pytest.raises(ValueError, match="there is no searcher 'magic'"):
        tune.create_searcher("magic")
