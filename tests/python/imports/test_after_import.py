"""Functions that run once the loop imports torch."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys

import pytest
from rtrain.train import _worker_main


def test_who_looks_whether_a_module_is_there_does_not_spoil_what_follows_its_import(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asked_for.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    loaded: list[bool] = []
    sys.meta_path.insert(0, _worker_main._AfterImport("asked_for", lambda: loaded.append("asked_for" in sys.modules)))
    assert importlib.util.find_spec("asked_for") and importlib.util.find_spec("none_such") is None
    assert loaded == []
    try:
        assert importlib.import_module("asked_for").value == 1
        assert loaded == [True]
        assert not any(isinstance(one, _worker_main._AfterImport) for one in sys.meta_path)
    finally:
        sys.modules.pop("asked_for", None)
