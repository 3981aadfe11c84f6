"""Tests which tests scripts/versions counts, and its report about a pair that it cannot try. The pairs themselves take gigabytes:
scripts/nightly."""

import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys

import pytest
from local_cluster import ROOT, wait_for

SCRIPT = ROOT / "scripts" / "versions"
TESTS = """
import pytest
def test_good(): pass
def test_bad(): assert False
def test_left_out(): pytest.skip("no reason")
@pytest.fixture
def broken(): raise OSError
def test_error(broken): pass
"""


@pytest.fixture
def versions(tmp_path, monkeypatch):
    loader = importlib.machinery.SourceFileLoader("versions", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("versions", loader))
    monkeypatch.setitem(sys.modules, "versions", module)  # its data classes look for the module there
    loader.exec_module(module)
    monkeypatch.setattr(module, "GROUPS", {"some": ["test_some.py"]})
    return module


def test_an_interpreter_that_is_not_there_is_said_and_nothing_tried_is_no_success():
    done = subprocess.run([sys.executable, SCRIPT, "3.99/newest"], capture_output=True, text=True)
    assert "3.99/newest  not tried: no python3.99" in done.stdout and done.returncode == 1, done
    done = subprocess.run([sys.executable, SCRIPT, "--where-possible", "3.99/newest"], capture_output=True, text=True)
    assert "3.99/newest  not tried: no python3.99" in done.stdout and done.returncode == 0, done


def test_wrong_words_are_named(versions, capsys):
    for arguments, named in (
        (["three/2"], "'three/2' is no PYTHON/TORCH"),
        (["--only", "some,others"], "others: the groups are some"),
    ):
        with pytest.raises(SystemExit) as ended:
            versions.parsed(arguments)
        assert ended.value.code == 2 and named in capsys.readouterr().err
    assert versions.parsed(["--only", "some"]).only == ["some"]


def test_the_newest_is_by_number_and_others_are_by_name(versions):
    by_version = {name: pathlib.Path(f"/bin/python{name}") for name in ("3.10", "3.9", "3.13")}
    assert versions.chosen("newest", by_version).name == "python3.13" and versions.chosen("3.9", by_version).name == "python3.9"


def test_passed_failed_and_skipped_are_counted_and_errors_are_failures(versions, tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    outcome = versions.group_outcome("some", tmp_path, pathlib.Path(sys.executable), tmp_path)
    assert (outcome.passed, outcome.failed, outcome.skipped) == (1, 2, 1)
    assert outcome.failures == ["test_some::test_bad", "test_some::test_error"]


def test_a_group_that_ends_without_a_report_or_a_test_failed(versions, tmp_path):
    (tmp_path / "test_some.py").write_text("import os; os._exit(0)")
    outcome = versions.group_outcome("some", tmp_path, pathlib.Path(sys.executable), tmp_path)
    assert (outcome.passed, outcome.failed) == (0, 1) and "without a report" in outcome.failures[0], outcome
    (tmp_path / "test_some.py").write_text("")
    outcome = versions.group_outcome("some", tmp_path, pathlib.Path(sys.executable), tmp_path)
    assert (outcome.passed, outcome.failed) == (0, 1), outcome


def test_what_does_not_end_in_time_is_ended_with_what_it_started(versions, tmp_path):
    log = tmp_path / "log"
    assert versions.run(["sh", "-c", "sleep 1000 & echo child $!; wait"], log, 1) is None
    child = int(log.read_text().split("child ")[-1].split()[0])
    wait_for("the child's end", lambda: ended(child), seconds=10)


def ended(pid):
    try:
        return ") Z " in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
