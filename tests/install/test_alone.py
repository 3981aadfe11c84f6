"""scripts/alone: which sources it takes, and that it names the one whose include is missing, in a project of four sources."""

import json
import os
import shutil
import subprocess

import pytest
from local_cluster import ROOT

CMAKE = "cmake_minimum_required(VERSION 3.25)\nproject(four CXX)\ninclude_directories(.)\nadd_library(four a.cpp b.cpp c.cpp d.cpp)\n"
PRESET = {
    "version": 6,
    "configurePresets": [
        {
            "name": "alone",
            "generator": "Ninja",
            "binaryDir": "${sourceDir}/build/alone",
            "cacheVariables": {"CMAKE_EXPORT_COMPILE_COMMANDS": "ON", "CMAKE_CXX_COMPILER": "clang++-16"},
        }
    ],
}


@pytest.fixture
def project(tmp_path):
    """A repository in which b.cpp, and b.hpp by c.hpp in c.cpp, are what the last commit touched."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "alone", tmp_path / "scripts")
    files = {"CMakeLists.txt": CMAKE, "CMakePresets.json": json.dumps(PRESET), ".gitignore": "build\n", "d.cpp": "int d;\n"}
    files |= {"a.cpp": "std::vector<int> broken_long_ago;\n", "b.hpp": "#pragma once\n", "c.hpp": '#include "b.hpp"\n'}
    files |= {"b.cpp": "int b;\n", "c.cpp": '#include "c.hpp"\nB c;\n'}
    write(tmp_path, files, "all")
    write(tmp_path, {"b.hpp": "#pragma once\nstruct B {};\n", "b.cpp": "int b = 1;\n"}, "the last")
    return tmp_path


def write(folder, files, commit=None):
    for name, text in files.items():
        (folder / name).write_text(text)
    if commit:
        git = ["git", "-C", folder, "-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "init.defaultBranch=main"]
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", commit]):
            subprocess.run([*git, *command], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})


def alone(folder, *arguments):
    done = subprocess.run([folder / "scripts" / "alone", *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout


def test_what_the_last_commit_touched_is_taken_first(project):
    assert alone(project, "2") == (0, "alone: 2 sources that were touched last, 0 of them do not compile by themselves\n")
    code, printed = alone(project)  # all four
    assert code == 1 and printed.startswith("alone: a.cpp does not compile by itself:\n"), printed
    assert printed.endswith("alone: 4 sources that were touched last, 1 of them do not compile by themselves\n"), printed


def test_a_source_fails_when_a_header_that_it_has_by_another_loses_what_it_needs(project):
    write(project, {"b.hpp": "#pragma once\n"}, "a header loses B")
    code, printed = alone(project, "2")
    assert code == 1 and printed.startswith("alone: c.cpp does not compile by itself:\n") and "unknown type name 'B'" in printed, printed


def test_what_is_not_committed_counts_as_the_newest(project):
    write(project, {"d.cpp": "Missing d;\n"})
    code, printed = alone(project, "1")
    assert code == 1 and printed.startswith("alone: d.cpp does not compile by itself:\n"), printed


@pytest.mark.parametrize("arguments", [["0"], ["-1"], ["many"], ["1", "2"]])
def test_a_count_that_is_none_is_refused_with_the_usage(arguments):
    done = subprocess.run([ROOT / "scripts" / "alone", *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and "usage: scripts/alone [COUNT]" in done.stderr, done
