"""Exceptions of remote calls and of loops on their way to a driver: the text always arrives, the object where it can be made again."""

from __future__ import annotations

import importlib
import pathlib
import pickle
import sys
import threading
from types import ModuleType
from typing import Any

import pytest
from rtrain import _exception_pickle, exceptions
from rtrain._remote import _calls, _refs, _values, _worker
from rtrain._remote._actors._performers import InOrder
from rtrain._remote._actors._server import ActorServer
from rtrain._remote._errors import TaskError, task_error
from rtrain.train import ControllerError, UserExceptionWithTraceback, WorkerGroupError
from rtrain.train._driver import _outcome, _raised
from rtrain.train._values._facts import Facts
from rtrain.train._worker import _errors_text

NEEDED_ARGUMENTS = """
class Shaped(ValueError):
    def __init__(self, rows, columns):
        super().__init__(f"bad shape ({rows}, {columns})")
        self.rows = rows

class Formatted(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code

class WithLock(Exception):
    def __init__(self, text):
        super().__init__(text)
        import threading
        self.lock = threading.Lock()

class RaisingReduce(Exception):
    def __reduce__(self):
        raise SystemExit("no pickle of this one")

class HangingReduce(Exception):
    def __reduce__(self):
        import threading
        threading.Event().wait()

class HangingSetState(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.some = 1
    def __setstate__(self, state):
        import threading
        threading.Event().wait()

class Frozen(Exception):
    def __setattr__(self, name, value):
        raise AttributeError("this exception is frozen")

class HangingText(Exception):
    def __str__(self):
        import threading
        threading.Event().wait()

class RaisingText(Exception):
    def __str__(self):
        raise KeyboardInterrupt
"""


class Answers:
    """A worker's channel to its driver. It keeps the last answer."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def send(self, parts: list[Any]) -> None:
        self.parts = [bytes(part) for part in parts]


@pytest.fixture
def only_there(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Imports a module. A test that calls `gone` acts as a driver without it."""
    monkeypatch.setattr(_exception_pickle, "WITHIN_S", 0.5)
    (tmp_path / "only_there.py").write_text(NEEDED_ARGUMENTS)
    # At the end of sys.path, since modules of the first folder would be pickled by value.
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(tmp_path)])
        importlib.invalidate_caches()
        module = importlib.import_module("only_there")
    yield module
    sys.modules.pop("only_there", None)


def gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "only_there", None)


def answered(monkeypatch: pytest.MonkeyPatch, raise_it: Any, op: str = "function") -> tuple[list[bytes], str]:
    """Returns the answer of a worker whose call raises, and the cause that its agent gets."""
    causes: list[str] = []
    monkeypatch.setattr(_worker, "tell_cause", lambda cause, shown: causes.append(cause))
    monkeypatch.setattr(_values, "unpack", lambda parts: (raise_it, (), {}))
    channel = Answers()
    _worker._Server(channel)._answer({"op": op, "id": 1, "what": "fails()", "returns": 1}, [])
    monkeypatch.undo()
    return channel.parts, causes[0] if causes else ""


def read(parts: list[bytes]) -> BaseException:
    """Returns the exception that the driver makes of the answer."""
    text, cause = _calls.unpacked_error(pickle.loads(parts[0]), [bytearray(part) for part in parts[1:]])
    return task_error(text, cause)


def raising(error: BaseException) -> Any:
    def fails() -> None:
        raise error

    return fails


def travelled(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> TaskError:
    within = _exception_pickle.WITHIN_S
    parts, _ = answered(monkeypatch, raising(error))
    monkeypatch.setattr(_exception_pickle, "WITHIN_S", within)
    arrived = read(parts)
    assert isinstance(arrived, TaskError) and "fails() raised on " in str(arrived) and "in fails\n" in str(arrived)
    return arrived


def test_a_class_that_needs_several_arguments_arrives_with_its_attributes(only_there, monkeypatch) -> None:
    error = travelled(monkeypatch, only_there.Shaped(3, 4))
    assert isinstance(error, only_there.Shaped) and error.cause.rows == 3 and str(error.cause) == "bad shape (3, 4)"


def test_a_class_that_formats_its_text_does_not_format_it_twice(only_there, monkeypatch) -> None:
    error = travelled(monkeypatch, only_there.Formatted(7))
    assert isinstance(error, only_there.Formatted) and str(error.cause) == "code 7" and error.cause.code == 7


def test_an_exception_of_a_module_that_only_the_worker_has_keeps_its_text_and_traceback(only_there, monkeypatch) -> None:
    parts, _ = answered(monkeypatch, raising(only_there.Shaped(3, 4)))
    gone(monkeypatch)
    error = read(parts)
    assert type(error) is TaskError and error.cause is None
    assert "only_there.Shaped: bad shape (3, 4)" in str(error) and "in fails\n" in str(error)
    assert "(the exception itself cannot be read here: " in str(error) and "only_there" in str(error).splitlines()[-1]


def test_an_exception_with_an_attribute_that_cannot_be_pickled_arrives_as_text_with_the_reason(only_there, monkeypatch) -> None:
    error = travelled(monkeypatch, only_there.WithLock("what it said"))
    assert type(error) is TaskError and error.cause is None and "only_there.WithLock: what it said" in str(error)
    assert "(WithLock itself is not sent: TypeError: cannot pickle '_thread.lock' object)" in str(error)


@pytest.mark.parametrize("name", ["RaisingReduce", "HangingReduce", "HangingSetState"])
def test_a_class_whose_own_pickling_fails_is_made_again_from_its_parts(only_there, monkeypatch, name) -> None:
    error = travelled(monkeypatch, getattr(only_there, name)("what it said"))
    assert isinstance(error.cause, getattr(only_there, name)) and error.cause.args == ("what it said",)


def test_a_class_that_refuses_attributes_is_the_cause(only_there, monkeypatch) -> None:
    error = travelled(monkeypatch, only_there.Frozen("what it said"))
    assert type(error) is TaskError and isinstance(error.cause, only_there.Frozen)


@pytest.mark.parametrize("name", ["HangingText", "RaisingText"])
def test_an_exception_without_a_text_arrives_by_its_class(only_there, monkeypatch, name) -> None:
    error = getattr(only_there, name)()
    monkeypatch.setattr(_exception_pickle, "WITHIN_S", 0.5)
    parts, cause = answered(monkeypatch, raising(error))
    text = pickle.loads(parts[0])["text"]
    assert name in text.splitlines()[0] and "in fails\n" in text and name in cause.splitlines()[0]


def test_a_chain_of_causes_is_in_the_text(monkeypatch) -> None:
    def fails() -> None:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    parts, cause = answered(monkeypatch, fails)
    error = read(parts)
    assert isinstance(error, ValueError) and "KeyError: 'first'" in str(error) and "ValueError: second" in str(error)
    assert cause.splitlines()[0] == "ValueError: second" and "KeyError: 'first'" in cause


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups are there from 3.11 on")
def test_a_group_is_a_group_and_its_exceptions_are_in_the_text(monkeypatch) -> None:
    parts, cause = answered(monkeypatch, raising(ExceptionGroup("two", [ValueError("a"), KeyError("b")])))  # noqa: F821
    error = read(parts)
    assert isinstance(error, ExceptionGroup) and [str(one) for one in error.exceptions] == ["a", "'b'"]  # noqa: F821
    assert error.subgroup(ValueError).exceptions[0].args == ("a",)
    assert cause.splitlines()[0] == "ExceptionGroup: two (2 sub-exceptions)" and "KeyError: 'b'" in cause
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, ExceptionGroup) and str(again) == str(error)  # noqa: F821


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit("no more"), KeyboardInterrupt(), GeneratorExit("g")])
def test_what_is_no_exception_arrives_and_a_function_s_worker_fails(monkeypatch, error) -> None:
    causes: list[str] = []
    monkeypatch.setattr(_worker, "tell_cause", lambda cause, shown: causes.append(cause))
    monkeypatch.setattr(_values, "unpack", lambda parts: (raising(error), (), {}))
    server = _worker._Server(channel := Answers())
    server._answer({"op": "function", "id": 1, "what": "fails()", "returns": 1}, [])
    monkeypatch.undo()
    arrived = read(channel.parts)
    assert type(arrived) is TaskError and type(arrived.cause) is type(error) and server._failed
    assert causes[0].startswith(type(error).__name__)


def test_a_method_that_calls_sys_exit_ends_its_actor_with_that_cause(monkeypatch) -> None:
    causes: list[str] = []
    monkeypatch.setattr(_worker, "tell_cause", lambda cause, shown: causes.append(cause))
    monkeypatch.setattr(_values, "unpack", lambda parts: ("leave", (), {}))
    ended: list[int] = []
    monkeypatch.setattr(_worker, "end", ended.append)
    server = ActorServer(channel := Answers())

    class Actor:
        def leave(self) -> None:
            sys.exit(3)

    server._instance = Actor()
    InOrder(server)._perform(server.maker, ({"op": "method", "id": 1, "what": "Actor.leave()", "returns": 1}, []))
    assert ended == [3]
    assert causes[0].startswith("SystemExit: 3") and pickle.loads(channel.parts[0])["ok"] is False


def test_the_cause_that_the_cluster_shows_begins_with_the_exception(only_there, monkeypatch) -> None:
    _, cause = answered(monkeypatch, raising(only_there.Shaped(3, 4)))
    lines = cause.splitlines()
    assert lines[0] == "only_there.Shaped: bad shape (3, 4)" and lines[1].startswith("  at ") and ", in fails" in lines[1]
    _, cause = answered(monkeypatch, lambda: compile("a b", "loop.py", "exec"))
    assert cause.splitlines()[0] == "SyntaxError: invalid syntax" and 'File "loop.py", line 1' in cause


def test_a_driver_reads_the_answers_of_a_worker_of_0_1_0() -> None:
    text, cause = _calls.unpacked_error({"ok": False}, [bytearray(pickle.dumps(("its text", KeyError("x"))))])
    assert text == "its text" and type(cause) is KeyError


def test_a_driver_of_0_1_0_reads_the_answers_of_a_worker(monkeypatch) -> None:
    parts, _ = answered(monkeypatch, raising(KeyError("x")))
    text, cause = _values.unpack([bytearray(part) for part in parts[1:]])  # the worker unpacks it in this way
    assert "KeyError: 'x'" in text and type(cause) is KeyError


def test_an_error_inside_of_another_value_keeps_its_text_where_its_cause_cannot_be_read(only_there, monkeypatch) -> None:
    content = pickle.dumps([task_error("its text", only_there.Shaped(3, 4))])
    assert isinstance(pickle.loads(content)[0], only_there.Shaped)
    gone(monkeypatch)
    (again,) = pickle.loads(content)
    assert type(again) is TaskError and str(again) == "its text" and again.cause is None
    (old,) = pickle.loads(pickle.dumps([Older("of 0.1.0", KeyError("x"))]))
    assert isinstance(old, KeyError) and isinstance(old, TaskError) and old.cause.args == ("x",)


class Older:
    """Pickles as a TaskError of 0.1.0 does."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def __reduce__(self) -> Any:
        from rtrain._remote._errors import _rebuilt  # noqa: PLC0415

        return _rebuilt, self.parts


def test_a_value_that_cannot_be_read_here_names_its_call_and_the_reason(only_there, monkeypatch) -> None:
    ref = _refs.ObjectRef("model()")
    _refs.settled(ref, parts=[pickle.dumps(only_there.Formatted(1))])
    gone(monkeypatch)
    for _ in range(2):  # a second get does not find an empty ref
        with pytest.raises(exceptions.RemoteError, match=r"what model\(\) returned cannot be read here: .*only_there"):
            _refs.get(ref)


class Head:
    """Keeps one run's values."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.patience_s = 0.0

    def put(self, path: str, content: bytes) -> None:
        self.values[path.rpartition("/")[2]] = content

    def get(self, path: str) -> dict[str, Any]:
        return {"token": {"user": "ann"}}

    def items(self, path: str) -> list[dict[str, Any]]:
        return [{"key": key} for key in self.values]

    def content(self, path: str) -> bytes:
        return self.values[path.rpartition("/")[2]]


RUN = {"run_id": "r-1", "name": "run", "user": "ann", "attempt": 1, "state": "SUCCEEDED"}


def left(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Head:
    head = Head()
    monkeypatch.setattr(_raised.Head, "current", lambda: head)
    _raised.leave(Facts(experiment_name="run", run_id="r-1", run_path="/r", attempt=1), error)
    return head


@pytest.mark.parametrize("name", ["Shaped", "Formatted", "HangingReduce", "RaisingReduce"])
def test_what_a_loop_raised_arrives_as_it_was(only_there, monkeypatch, name) -> None:
    error = only_there.Shaped(3, 4) if name == "Shaped" else getattr(only_there, name)(7)
    head = left(monkeypatch, error)
    arrived = _raised.exceptions(head, RUN, 1, {0: "its text"})[0]
    assert type(arrived) is type(error) and str(arrived) == str(error) and "its text" in str(arrived.__cause__)


@pytest.mark.parametrize("name", ["WithLock", "HangingText"])
def test_what_a_loop_raised_and_cannot_travel_has_its_text(only_there, monkeypatch, name) -> None:
    head = left(monkeypatch, getattr(only_there, name)("x"))
    assert head.values == {} and str(_raised.exceptions(head, RUN, 1, {0: "its text"})[0]) == "its text"


def test_what_a_loop_raised_and_this_driver_has_no_module_for_has_its_text(only_there, monkeypatch) -> None:
    head = left(monkeypatch, only_there.Shaped(3, 4))
    gone(monkeypatch)
    assert str(_raised.exceptions(head, RUN, 1, {0: "its text"})[0]) == "its text"


def test_a_training_s_error_arrives_without_what_its_loop_raised(only_there, monkeypatch) -> None:
    """A remote function called fit(), and only its worker has the module of the loop's exception."""
    failure = only_there.Shaped(3, 4)
    failure.__cause__ = UserExceptionWithTraceback("the worker's traceback")
    content = pickle.dumps([WorkerGroupError("it failed", {1: failure}), ControllerError(only_there.Shaped(5, 6))])
    group, controller = pickle.loads(content)
    assert (
        isinstance(group.worker_failures[1], only_there.Shaped)
        and str(group.worker_failures[1].__cause__) == "the worker's traceback"
    )
    assert isinstance(controller.controller_failure, only_there.Shaped)
    gone(monkeypatch)
    group, controller = pickle.loads(content)
    assert (
        type(group) is WorkerGroupError
        and str(group) == "it failed"
        and str(group.worker_failures[1]) == "the worker's traceback"
    )
    assert str(controller.controller_failure) == "Shaped: bad shape (5, 6)" and "bad shape (5, 6)" in str(controller)


def test_a_return_value_that_cannot_be_read_here_is_named_and_the_result_is_there(only_there, monkeypatch, capsys) -> None:
    head = Head()
    head.values["return-1"] = pickle.dumps(only_there.Formatted(1))
    gone(monkeypatch)
    assert _outcome._return_value(head, RUN) is None
    assert "the return value of run cannot be read here, and is None: " in capsys.readouterr().err


def test_a_text_is_made_where_no_thread_can_be_started(monkeypatch) -> None:
    def refuses(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuses)
    assert _errors_text.describe(ValueError("x")).splitlines()[0] == "ValueError: x"
