"""The decisions of a pool, without threads, sockets and clocks: who executes a call, and when workers start and end."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterable

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "runtime" / "python"))

from rtrain._remote._pools._plan import Limits, Plan, Task

FUNCTION = 7


class Story:
    """A plan with a clock that the test moves."""

    def __init__(self, **limits: float) -> None:
        self.plan = Plan(Limits(**limits))
        self.now = 100.0
        self.numbers = 0
        self.started = 0

    def calls(self, count: int, function: int = FUNCTION, **more: int) -> list[int]:
        numbers = list(range(self.numbers + 1, self.numbers + 1 + count))
        self.numbers += count
        for number in numbers:
            self.plan.ready(Task(number, function, **more))
        return numbers

    def decide(self, **more: object):
        orders = self.plan.decide(self.now, **more)
        for _ in range(orders.start):
            self.started += 1
            self.plan.starting(f"w{self.started}", self.now)
        return orders

    def connect(self, *names: str) -> dict[str, list[int]]:
        for name in names:
            if name not in self.plan.workers:
                self.plan.starting(name, self.now)
            self.plan.connected(name, self.now)
        return self.given(self.decide())

    def answer(self, name: str, number: int, seconds: float | None = 0.0001) -> dict[str, list[int]]:
        self.plan.answered(name, number, seconds, self.now)
        return self.given(self.decide())

    @staticmethod
    def given(orders) -> dict[str, list[int]]:
        return {name: [task.number for task in tasks] for name, tasks in orders.send}

    def sent(self, name: str) -> list[int]:
        return list(self.plan.workers[name].sent)

    def waiting(self) -> list[int]:
        return [task.number for task in self.plan.queue]


@pytest.fixture
def warm() -> Story:
    """Returns a pool of two workers which has measured that calls of its function are short."""
    story = Story()
    story.connect("a", "b")
    story.calls(1)
    story.decide()
    story.answer(next(name for name in "ab" if story.sent(name)), 1)
    return story


def everywhere(story: Story) -> list[int]:
    return sorted([*story.waiting(), *(number for name in story.plan.workers for number in story.sent(name))])


def test_the_first_call_starts_one_worker_and_is_sent_when_it_connects() -> None:
    story = Story()
    story.calls(1)
    assert story.decide().start == 1
    assert story.decide().start == 0
    assert story.connect("w1") == {"w1": [1]}


def test_a_thousand_first_calls_start_two_workers() -> None:
    story = Story()
    story.calls(1000)
    assert story.decide().start == 2
    story.connect("w1", "w2")
    assert story.sent("w1") == [1] and story.sent("w2") == [2]  # nothing goes ahead before the function is known


def test_short_calls_need_no_further_worker() -> None:
    story = Story()
    story.calls(1000)
    story.decide()
    story.connect("w1")
    story.answer("w1", 1)
    assert story.decide().start == 0 and story.started == 2


def test_long_calls_double_the_workers_with_each_start() -> None:
    story = Story()
    story.calls(100)
    story.decide()
    story.connect("w1", "w2")
    story.now += 1.0
    counts = []
    for _ in range(5):
        counts.append(story.decide().start)
        story.connect(*(name for name, worker in story.plan.workers.items() if not worker.is_connected))
        story.now += 1.0
    assert counts[:1] == [2] and story.started >= 64
    assert max(counts) <= 32


def test_runs_that_the_head_cannot_place_stay_as_few_as_those_it_placed() -> None:
    story = Story()
    story.calls(100)
    story.decide()
    story.connect("w1", "w2")
    for _ in range(50):
        story.now += 1.0
        story.decide()
    assert story.started == 4  # two connected, two that wait


def test_a_single_long_call_behind_busy_workers_starts_one_more() -> None:
    story = Story()
    story.connect("a", "b")
    story.calls(3)
    story.decide()
    story.now += 1.0
    assert story.decide().start == 1


def test_short_calls_are_sent_ahead_and_shared_evenly(warm: Story) -> None:
    warm.calls(40)
    warm.decide()
    sent = len(warm.sent("a")), len(warm.sent("b"))
    assert sum(sent) == 40 and abs(sent[0] - sent[1]) <= 1


def test_no_worker_has_more_ahead_than_the_limits(warm: Story) -> None:
    warm.calls(1000)
    warm.decide()
    for name in "ab":
        assert len(warm.sent(name)) <= warm.plan.limits.ahead_most
        assert warm.plan.workers[name].work <= warm.plan.limits.ahead_s + 1e-9


def test_calls_of_long_or_unknown_functions_are_never_sent_ahead(warm: Story) -> None:
    warm.calls(5, function=8)
    warm.decide()
    assert len(warm.sent("a")) == len(warm.sent("b")) == 1 and len(warm.waiting()) == 3
    warm.answer("a", warm.sent("a")[0], seconds=0.5)
    assert len(warm.sent("a")) == 1


def test_a_call_with_large_arguments_is_not_sent_ahead(warm: Story) -> None:
    warm.calls(3, size=1 << 20)
    warm.decide()
    assert len(warm.waiting()) == 1


def test_calls_behind_one_that_takes_longer_are_taken_back_for_an_idle_worker(warm: Story) -> None:
    warm.calls(20)
    orders = warm.decide()
    assert orders.wake_at == pytest.approx(warm.now + warm.plan.limits.held_s)
    for number in warm.sent("b"):
        warm.answer("b", number)
    held = warm.sent("a")
    warm.now += 0.021
    orders = warm.decide()
    assert orders.take_back == [("a", held[1:])]
    assert warm.decide().take_back == []  # once
    warm.plan.returned("a", held[1:], warm.now)
    assert warm.given(warm.decide()) == {"b": held[1:]}  # in their order
    assert warm.sent("a") == held[:1]


def test_calls_that_began_before_they_were_taken_back_stay_where_they_are(warm: Story) -> None:
    warm.calls(4)
    warm.decide()
    first, second = warm.sent("a")
    warm.now += 0.03
    assert ("a", [second]) in warm.decide().take_back
    warm.plan.answered("a", first, 0.03, warm.now)
    warm.plan.returned("a", [], warm.now)  # the second one has begun
    assert warm.sent("a") == [second]


def test_a_worker_ends_after_its_idle_time_and_not_before(warm: Story) -> None:
    assert warm.decide().end == []
    warm.now += warm.plan.limits.idle_s - 0.1
    assert warm.decide().end == []
    warm.now += 0.2
    assert sorted(warm.decide().end) == ["a", "b"] and warm.plan.workers == {}


def test_the_worker_that_was_idle_last_gets_the_next_call_so_the_other_ends(warm: Story) -> None:
    for _ in range(10):
        warm.now += 1.0
        (number,) = warm.calls(1)
        ended = warm.decide().end
        name = next(name for name in warm.plan.workers if number in warm.sent(name))
        warm.answer(name, number)
        if ended:
            break
    assert len(warm.plan.workers) == 1


def test_a_run_that_waits_in_vain_is_ended_once_no_call_waits() -> None:
    story = Story()
    story.calls(2)
    story.decide()
    story.connect("w1")
    story.answer("w1", 1)
    story.answer("w1", 2)
    story.now += 2 * story.plan.limits.idle_s
    assert sorted(story.decide().end) == ["w1", "w2"]


def test_idle_workers_end_for_other_work_but_busy_ones_do_not(warm: Story) -> None:
    warm.calls(1)
    warm.decide()
    idle = [name for name in "ab" if not warm.sent(name)]
    assert warm.plan.end_idle(warm.now).end == idle


def test_a_lost_worker_s_calls_are_done_first_by_others(warm: Story) -> None:
    warm.calls(6, retries=3)
    warm.decide()
    warm.calls(1, function=8)
    lost = warm.sent("a")
    assert warm.plan.lost("a", is_counted=True) == []
    assert warm.waiting()[: len(lost)] == lost


@pytest.mark.parametrize(("retries", "losses"), [(0, 1), (1, 2), (3, 4)])
def test_a_call_is_repeated_as_often_as_it_may_be(retries: int, losses: int) -> None:
    story = Story()
    story.calls(1, retries=retries)
    for loss in range(losses):
        story.connect(f"n{loss}")
        assert story.sent(f"n{loss}") == [1]
        spent = story.plan.lost(f"n{loss}", is_counted=True)
        assert [task.number for task in spent] == ([1] if loss == losses - 1 else [])
    assert story.waiting() == []


def test_a_call_without_limit_is_repeated_for_ever() -> None:
    story = Story()
    story.calls(1, retries=-1)
    for loss in range(50):
        story.connect(f"n{loss}")
        assert story.plan.lost(f"n{loss}", is_counted=True) == []
    assert story.waiting() == [1]


def test_a_preempted_worker_uses_up_no_repetition_and_stays() -> None:
    story = Story()
    story.calls(1, retries=0)
    story.connect("n")
    assert story.plan.lost("n", is_counted=False, stays=True) == []
    assert story.waiting() == [1] and not story.plan.workers["n"].is_connected


def test_only_the_call_that_may_have_begun_uses_up_a_repetition(warm: Story) -> None:
    warm.calls(6, retries=0)
    warm.decide()
    first, *behind = warm.sent("a")
    assert [task.number for task in warm.plan.lost("a", is_counted=True)] == [first]
    assert warm.waiting()[: len(behind)] == behind


def test_a_worker_with_a_number_of_calls_ends_after_them() -> None:
    story = Story(calls_most=2)
    story.calls(5)
    story.decide()
    story.connect("w1")
    for number in (1, 2):
        assert number in story.sent("w1")
        story.plan.answered("w1", number, 0.0001, story.now)
        orders = story.decide()
    assert orders.end == ["w1"]


def blocked(story: Story, seconds: float):
    return story.decide(may_lend=True, blocked_since=story.now - seconds)


def test_a_blocked_worker_lends_its_cpus_after_a_short_wait() -> None:
    story = Story()
    story.calls(1)
    orders = blocked(story, 0.0)
    assert not orders.start_lent and orders.wake_at == pytest.approx(story.now + story.plan.limits.lend_after_s)
    orders = blocked(story, 0.3)
    assert orders.start_lent
    story.plan.starting("lent", story.now, is_lent=True)
    assert not blocked(story, 0.3).start_lent  # one at a time
    story.plan.connected("lent", story.now)
    assert story.given(blocked(story, 0.3)) == {"lent": [1]}


def test_a_worker_on_lent_cpus_gets_nothing_while_its_owner_computes() -> None:
    story = Story()
    story.plan.starting("lent", story.now, is_lent=True)
    story.plan.connected("lent", story.now)
    story.calls(1)
    assert story.given(story.decide()) == {} and story.waiting() == [1]


def test_a_worker_of_its_own_is_preferred_to_lent_cpus() -> None:
    story = Story()
    story.plan.starting("lent", story.now, is_lent=True)
    story.plan.connected("lent", story.now)
    story.connect("own")
    story.calls(1)
    assert story.given(blocked(story, 1.0)) == {"own": [1]}


def some_events(seed: int) -> Iterable[tuple[str, int]]:
    state = seed
    for _ in range(400):
        state = (state * 1103515245 + 12345) % (1 << 31)
        yield ("calls", "connect", "answer", "answer", "lose", "back", "wait")[(state >> 8) % 7], state >> 12


@pytest.mark.parametrize("seed", range(30))
def test_no_call_is_ever_forgotten_or_in_two_places(seed: int) -> None:
    story, open_calls = Story(), set()
    for kind, chance in some_events(seed):
        names = list(story.plan.workers)
        name = names[chance % len(names)] if names else ""
        if kind == "calls":
            open_calls.update(story.calls(chance % 5, function=chance % 3, retries=-1))
        elif kind == "connect" and name and not story.plan.workers[name].is_connected:
            story.plan.connected(name, story.now)
        elif kind == "answer" and name and story.sent(name):
            number = story.sent(name)[0]
            story.plan.answered(name, number, (chance % 100) / 10_000, story.now)
            open_calls.discard(number)
        elif kind == "lose" and name:
            assert story.plan.lost(name, is_counted=True) == []
        elif kind == "back" and name and story.plan.workers[name].asked_back:
            story.plan.returned(name, story.sent(name)[1:], story.now)
        story.now += (chance % 50) / 1000
        story.decide()
        assert everywhere(story) == sorted(open_calls)
        assert sum(story.plan._waiting.values()) == len(story.plan.queue)


def test_after_a_failed_start_no_other_worker_starts_for_a_while() -> None:
    story = Story()
    story.calls(10)
    story.decide()
    story.plan.lost("w1", is_counted=False)
    story.plan.no_start_before = story.now + 5.0
    assert story.decide().start == 0 and story.decide().wake_at == pytest.approx(story.now + 5.0)
    story.now += 5.0
    assert story.decide().start == 1


@pytest.fixture
def yielding() -> Story:
    """Returns a pool of two idle workers that may yield."""
    story = Story()
    for name in "ab":
        story.plan.starting(name, story.now)
        story.plan.connected(name, story.now, can_yield=True)
    return story


def test_idle_workers_yield_one_after_the_other_within_their_idle_time(yielding: Story) -> None:
    yielding.now += 1.0
    assert yielding.decide().let_yield == ["a"]
    assert yielding.decide().let_yield == []
    yielding.now += 0.5
    assert yielding.decide().let_yield == ["b"]
    yielding.now += 5.0
    assert yielding.decide().end == []  # longer than a worker that holds its resources
    yielding.now += 10.0
    assert sorted(yielding.decide().end) == ["a", "b"]


def test_a_worker_that_yields_gets_a_call_only_after_it_was_woken(yielding: Story) -> None:
    for _ in range(2):
        yielding.now += 1.0
        yielding.decide()
    yielding.calls(1)
    orders = yielding.decide()
    assert yielding.given(orders) == {} and orders.start == 0 and len(orders.wake) == 1
    assert yielding.decide().wake == []  # once
    (name,) = orders.wake
    yielding.plan.woken(name, yielding.now)
    assert yielding.given(yielding.decide()) == {name: [1]}


def test_a_worker_that_leaves_gets_no_call_and_is_replaced(yielding: Story) -> None:
    yielding.plan.leaving("a")
    yielding.plan.leaving("b")
    yielding.calls(1)
    orders = yielding.decide()
    assert yielding.given(orders) == {} and orders.start == 1


def test_calls_are_sent_in_batches_once_a_worker_has_half_of_its_calls_done(warm: Story) -> None:
    warm.calls(1000)
    warm.decide()
    full = len(warm.sent("a"))
    batches = []
    for number in list(warm.plan.workers["a"].sent):
        warm.plan.answered("a", number, 0.0001, warm.now)
        if warm.plan.is_due_for_answer("a"):
            batches.append(len(warm.given(warm.decide()).get("a", [])))
    assert full > 10 and len(batches) <= 4 and max(batches) >= full // 2 - 1


def test_the_first_calls_and_a_pool_without_workers_are_decided_at_once(warm: Story) -> None:
    warm.calls(2)
    assert warm.plan.is_due_for_call()
    warm.calls(1000)
    assert not warm.plan.is_due_for_call() and warm.decide().wake_at <= warm.now + 0.1
    for name in "ab":
        warm.plan.lost(name, is_counted=True)
    assert warm.plan.is_due_for_call()
