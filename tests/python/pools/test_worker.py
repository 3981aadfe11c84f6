"""A worker of a pool as a real process, against a driver that the test plays."""

from __future__ import annotations

import os
import pathlib
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import channels
import cloudpickle
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "runtime" / "python"))

from rtrain._remote import _values
from rtrain._remote._channel import ChannelError, answer
from rtrain._remote._cipher import Identity

PACKAGE = pathlib.Path(__file__).resolve().parents[3] / "runtime" / "python"
SLOT = "s" * 16
WITHIN_S = 60


@pytest.fixture(scope="module", autouse=True)
def pickled_by_value():
    """Pickles what this module defines by value, since the worker does not have the module."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


class Driver:
    """The driver's end of the channel."""

    def __init__(self, place: pathlib.Path) -> None:
        self.place = place
        self.numbers = 0
        with socket.create_server(("127.0.0.1", 0)) as listener:
            environment = {
                **os.environ,
                "PYTHONPATH": str(PACKAGE),
                "RTRAIN_CHANNEL": channels.RUN,
                "RTRAIN_REMOTE_SLOT": SLOT,
                "RTRAIN_REMOTE_DRIVER": f"127.0.0.1:{listener.getsockname()[1]}",
                "RTRAIN_REMOTE_LENT": "1",
            }
            command = [sys.executable, "-m", "rtrain._remote._pools._worker"]
            self.process = subprocess.Popen(command, env=environment, cwd=place, stderr=subprocess.PIPE, text=True)
            listener.settimeout(WITHIN_S)
            self.channel = answer(listener.accept()[0], {SLOT: Identity(channels.RUN)}.get)[1]

    def calls(self, function: Callable[..., Any], *arguments: Any, drop: list[int] | None = None) -> list[int]:
        """Sends one message with a call for each argument. Returns the numbers of the calls."""
        self.numbers += 1
        number = self.numbers
        code = [cloudpickle.dumps(function)]
        heads, parts = [], []
        for argument in arguments:
            self.numbers += 1
            packed = _values.pack(((argument,), {}), "it")
            heads.append((self.numbers, number, "f()", 1, len(packed)))
            parts += packed
        head = {"op": "calls", "functions": [(number, len(code))], "calls": heads, "drop": drop or []}
        self.channel.send([pickle.dumps(head), *code, *parts])
        return [number for number, *_ in heads]

    def order(self, **order: Any) -> None:
        self.channel.send([pickle.dumps(order)])

    def answer(self) -> dict[str, Any]:
        """Returns the next message, with the value of the call in it."""
        parts = self.channel.receive()
        head = pickle.loads(parts[0])
        return {**head, "value": _values.unpack(parts[1:]) if len(parts) > 1 else None}

    def until(self, name: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not (self.place / name).exists():
            assert self.process.poll() is None and time.monotonic() < deadline
            threading.Event().wait(0.01)

    def ended(self) -> int:
        code = self.process.wait(WITHIN_S)
        return code


@pytest.fixture
def driver(tmp_path: pathlib.Path) -> Iterator[Driver]:
    made = Driver(tmp_path)
    yield made
    made.process.kill()
    made.process.communicate()


def waits(name: str) -> str:
    import pathlib
    import threading

    pathlib.Path(f"{name}-begun").touch()
    while not pathlib.Path("go").exists():
        threading.Event().wait(0.01)
    return name


def double(number: int) -> int:
    return 2 * number


def test_calls_are_answered_in_their_order_with_their_times(driver: Driver) -> None:
    numbers = driver.calls(double, 1, 2, 3)
    answers = [driver.answer() for _ in numbers]
    assert [(head["id"], head["value"]) for head in answers] == list(zip(numbers, (2, 4, 6), strict=True))
    assert all(0 <= head["s"] < 1 for head in answers)


def test_only_calls_that_have_not_begun_are_given_back(driver: Driver) -> None:
    first, second, third = driver.calls(waits, "a", "b", "c")
    driver.until("a-begun")
    driver.order(op="back", of=[first, second, third, 99])
    assert driver.answer()["of"] == [second, third]
    (driver.place / "go").touch()
    assert driver.answer()["value"] == "a"
    assert not (driver.place / "b-begun").exists()


def test_an_interrupt_reaches_the_cancelled_call_alone(driver: Driver) -> None:
    first, second = driver.calls(waits, "a", "b")
    driver.until("a-begun")
    driver.order(op="cancel", number=first, force=False, recursive=True)
    head = driver.answer()
    assert head["id"] == first and head["cancelled"]
    driver.order(op="cancel", number=first, force=False, recursive=True)  # too late, and changes nothing
    driver.until("b-begun")
    (driver.place / "go").touch()
    assert driver.answer()["value"] == "b"


def test_a_function_that_catches_the_interrupt_returns_its_value(driver: Driver) -> None:
    def catches(name: str) -> str:
        import pathlib
        import threading

        try:
            pathlib.Path(name).touch()
            threading.Event().wait()
        except KeyboardInterrupt:
            return "caught"
        return "missed"

    (number,) = driver.calls(catches, "begun")
    driver.until("begun")
    driver.order(op="cancel", number=number, force=False, recursive=True)
    assert driver.answer()["value"] == "caught"


def test_a_forced_cancellation_ends_the_worker_after_its_answer(driver: Driver) -> None:
    (number,) = driver.calls(waits, "a")
    driver.until("a-begun")
    driver.order(op="cancel", number=number, force=True, recursive=True)
    head = driver.answer()
    assert head["cancelled"] and head["ends"]
    assert driver.ended() == 1


def test_sigterm_lets_the_running_call_end_and_returns_the_others(driver: Driver) -> None:
    first, second = driver.calls(waits, "a", "b")
    driver.until("a-begun")
    driver.process.send_signal(signal.SIGTERM)
    head = driver.answer()
    assert head["of"] == [second] and head["leaves"]
    late = driver.calls(double, 1)
    assert driver.answer()["of"] == late
    (driver.place / "go").touch()
    assert driver.answer()["value"] == "a"
    assert driver.ended() == 0


def test_the_driver_s_end_ends_a_worker_in_a_call(driver: Driver) -> None:
    driver.calls(waits, "a")
    driver.until("a-begun")
    driver.channel.close()
    assert driver.ended() == 1


def test_an_order_to_end_ends_the_worker(driver: Driver) -> None:
    driver.calls(double, 1)
    driver.order(op="end")
    assert driver.answer()["value"] == 2
    with pytest.raises(ChannelError):
        driver.answer()
    assert driver.ended() == 0


def test_a_function_that_cannot_be_read_fails_each_call_with_its_cause(driver: Driver) -> None:
    class Unreadable:
        def __reduce__(self) -> Any:
            return __import__, ("no_such_module",)

    for _ in range(2):
        driver.calls(Unreadable(), 1)  # type: ignore[arg-type]
        head = driver.answer()
        assert not head["ok"] and "No module named 'no_such_module'" in head["text"]


def test_exits_and_exceptions_leave_the_worker_for_the_next_call(driver: Driver) -> None:
    def exits(code: int) -> None:
        if code:
            sys.exit(code)
        raise LookupError("nothing there")

    driver.calls(exits, 3, 0)
    assert "SystemExit" in driver.answer()["text"]
    assert "LookupError: nothing there" in driver.answer()["text"]
    driver.calls(double, 4)
    assert driver.answer()["value"] == 8
