"""Modules pickled by value, in several threads, and together with modules that the program has registered itself."""

from __future__ import annotations

import pickle
import sys
import threading
from types import ModuleType
from typing import Any

import cloudpickle
import pytest
from rtrain import _public_names
from rtrain._by_value import by_value
from rtrain._remote import _values
from rtrain._remote._own_modules import own_modules


@pytest.fixture
def modules(monkeypatch) -> list[ModuleType]:
    made = [ModuleType(name) for name in ("beside_a", "beside_b")]
    for module in made:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return made


def test_installed_packages_below_the_driver_are_not_its_own(tmp_path, monkeypatch) -> None:
    for file in ("helpers.py", "parts/pieces.py", "carried/wave_reader/inner.py", "carried/wave_reader-1.0.dist-info/METADATA"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name, file in {"helpers": "helpers.py", "pieces": "parts/pieces.py", "inner": "carried/wave_reader/inner.py"}.items():
        module = ModuleType(name)
        module.__file__ = str(tmp_path / file)
        monkeypatch.setitem(sys.modules, name, module)
    assert {module.__name__ for module in own_modules()} == {"helpers", "pieces"}


def test_a_module_of_a_class_of_its_own_is_pickled_by_name(monkeypatch) -> None:
    class Ops(ModuleType):
        def __reduce__(self):
            raise TypeError("cannot pickle 'Ops' object")

    made = Ops("special_ops")
    monkeypatch.setitem(sys.modules, "special_ops", made)
    assert pickle.loads(_public_names.dumps([made, made])) == [made, made]


def registered() -> set[str]:
    return set(cloudpickle.list_registry_pickle_by_value())


def test_who_ends_first_takes_nothing_from_the_other(modules) -> None:
    first, second = by_value(modules), by_value(modules[:1])
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert registered() == {"beside_a"}
    second.__exit__(None, None, None)
    assert registered() == set()


def test_what_the_program_registered_stays(modules) -> None:
    cloudpickle.register_pickle_by_value(modules[0])
    try:
        with by_value(modules):
            assert registered() == {"beside_a", "beside_b"}
        assert registered() == {"beside_a"}
    finally:
        cloudpickle.unregister_pickle_by_value(modules[0])


def test_threads_that_pickle_at_once_disturb_nobody(modules) -> None:
    exec("def function():\n    return 7", vars(modules[0]))
    failed: list[BaseException] = []

    def pickles() -> None:
        try:
            for _ in range(300):
                with by_value(modules):
                    assert b"beside_a" in (text := cloudpickle.dumps(modules[0].function)) and len(text) > 200
        except BaseException as error:
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=pickles) for _ in range(4)]
    try:
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(before)
    assert failed == [] and registered() == set()


def test_code_that_travels_by_value_keeps_the_name_of_its_file() -> None:
    globals_: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def outer():\n    def inner(): raise KeyError('x')\n    return inner", "/home/ana/train.py", "exec"), globals_)
    arrived = pickle.loads(_public_names.dumps(globals_["outer"]))
    assert arrived is not globals_["outer"]
    assert {arrived.__code__.co_filename, arrived().__code__.co_filename} == {"/home/ana/train.py"}


def test_plain_values_travel_without_a_look_at_the_modules(monkeypatch) -> None:
    looked = []
    monkeypatch.setattr(_values, "own_modules", lambda: looked.append(1) or ())
    for value in (None, 5, "x" * 100_000, b"y", {"loss": 1.5, 2: (True, [1j])}, list(range(400))):
        assert _values.unpack(_values.pack(value, "it")) == value
    assert not looked


def test_values_of_classes_large_and_cyclic_ones_travel_as_before(monkeypatch) -> None:
    looked = []
    monkeypatch.setattr(_values, "own_modules", lambda: looked.append(1) or ())
    cyclic: list = [1]
    cyclic.append(cyclic)
    again = _values.unpack(_values.pack(cyclic, "it"))
    assert again[1] is again
    assert _values.unpack(_values.pack([lambda: 7], "it"))[0]() == 7
    assert _values.unpack(_values.pack(list(range(2000)), "it")) == list(range(2000))
    assert len(looked) == 3
    with pytest.raises(TypeError, match="it cannot be sent"):
        _values.pack([threading.Lock()], "it")
