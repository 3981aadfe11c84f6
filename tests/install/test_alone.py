"""scripts/alone: which sources it takes, and that it names the one whose include is missing, in a small project."""

import json
import os
import shutil
import subprocess

import pytest
from local_cluster import ROOT

CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(four CXX)
include_directories(.)
add_library(four a.cpp b.cpp c.cpp d.cpp)
"""
GENERATED_HEADER = """
add_library(under under.cpp)
add_custom_command(OUTPUT made.hpp COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/template made.hpp)
add_custom_target(header DEPENDS made.hpp)
add_library(over over.cpp made.hpp)
target_include_directories(over PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
target_link_libraries(over under)
"""
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
    """A repository in which b.cpp, and b.hpp by c.hpp in c.cpp, are what the last commit changed."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "alone", tmp_path / "scripts")
    files = {"CMakeLists.txt": CMAKE, "CMakePresets.json": json.dumps(PRESET), ".gitignore": "build\n", "d.cpp": "int d;\n"}
    files |= {"a.cpp": "std::vector<int> broken_long_ago;\n", "b.hpp": "#pragma once\n", "c.hpp": '#include "b.hpp"\n'}
    files |= {"b.cpp": "int b;\n", "c.cpp": '#include "c.hpp"\nB c;\n'}
    write(tmp_path, files, "all")
    write(tmp_path, {"b.hpp": "#pragma once\nstruct B {};\n", "b.cpp": "int b = 1;\n"}, "the last")
    return tmp_path


def git(folder, *arguments):
    names = ["-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "init.defaultBranch=main"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # of a hook that runs this
    subprocess.run(["git", "-C", folder, *names, *arguments], check=True, env={**environment, "GIT_CONFIG_GLOBAL": os.devnull})


def write(folder, files, commit=None):
    for name, text in files.items():
        (folder / name).write_text(text)
    if commit:
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", commit]):
            git(folder, *command)


def alone(folder, *arguments):
    done = subprocess.run([folder / "scripts" / "alone", *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout


def test_what_the_last_commit_changed_is_taken_first(project):
    assert alone(project, "2") == (0, "alone: 2 sources that were changed last, 0 of them do not compile by themselves\n")
    code, printed = alone(project, "all")
    assert code == 1 and printed.startswith("alone: a.cpp does not compile by itself:\n"), printed
    assert printed.endswith("alone: 4 sources that were changed last, 1 of them do not compile by themselves\n"), printed


def test_a_source_fails_when_a_header_that_it_has_by_another_loses_what_it_needs(project):
    write(project, {"b.hpp": "#pragma once\n"}, "a header loses B")
    code, printed = alone(project, "2")
    assert code == 1 and printed.startswith("alone: c.cpp does not compile by itself:\n") and "unknown type name 'B'" in printed, printed


def test_what_is_not_committed_counts_as_the_newest(project):
    write(project, {"d.cpp": "Missing d;\n"})
    code, printed = alone(project, "1")
    assert code == 1 and printed.startswith("alone: d.cpp does not compile by itself:\n"), printed


@pytest.mark.parametrize("name", ["e.cpp", "of two words.cpp", "größe.cpp"])
def test_a_source_that_git_does_not_know_yet_is_new_and_so_is_one_in_the_last_commit(project, name):
    write(project, {name: "Missing e;\n", "CMakeLists.txt": CMAKE + f'add_library(more "{name}")\n'})
    for commit in ("another source", None):
        code, printed = alone(project, "1")
        assert code == 1 and printed.startswith(f"alone: {name} does not compile by itself:\n"), printed
        write(project, {}, commit)


def test_what_a_merge_brings_is_new(project):
    git(project, "checkout", "-q", "-b", "branch")
    write(project, {"d.cpp": "Missing d;\n"}, "on a branch")
    git(project, "checkout", "-q", "main")
    write(project, {"b.cpp": "int b = 2;\n"}, "on main meanwhile")
    git(project, "merge", "-q", "-m", "merge", "branch")
    code, printed = alone(project, "1")
    assert code == 1 and printed.startswith("alone: d.cpp does not compile by itself:\n"), printed


def test_a_header_that_many_include_leaves_room_for_others(project):
    many = {f"many{i}.cpp": '#include "many.hpp"\nMany x;\n' for i in range(20)}
    write(project, many | {"CMakeLists.txt": CMAKE + f"add_library(many {' '.join(many)})\n", "many.hpp": "struct Many {};\n"}, "many")
    write(project, {"b.hpp": "#pragma once\n"}, "a header loses B")
    write(project, {"many.hpp": "#pragma once\nstruct Many {};\n"}, "a newer header that twenty sources include")
    changed = ["a.cpp", "b.cpp", "d.cpp", *list(many)[:4]]
    write(project, {name: f"int own{i};\n" for i, name in enumerate(changed)}, "seven sources")
    code, printed = alone(project, "14")  # these seven, six with many.hpp, and c.cpp
    assert code == 1 and printed.startswith("alone: c.cpp does not compile by itself:\n"), printed


def test_a_header_that_the_build_makes_is_made_and_nothing_else(project):
    sources = {"under.cpp": "int under;\n", "over.cpp": '#include "made.hpp"\nint over = answer;\n'}
    write(project, sources | {"template": "constexpr int answer = 42;\n", "CMakeLists.txt": CMAKE + GENERATED_HEADER})
    assert alone(project, "2") == (0, "alone: 2 sources that were changed last, 0 of them do not compile by themselves\n")
    assert not list((project / "build").rglob("*.o"))


def test_a_folder_that_is_reached_by_a_link_is_the_same(project, tmp_path_factory):
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(project)
    write(project, {"d.cpp": "Missing d;\n"})
    done = subprocess.run(["scripts/alone", "1"], cwd=link, env={**os.environ, "PWD": str(link)}, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout.startswith("alone: d.cpp does not compile by itself:\n"), done


def test_a_project_without_sources_or_that_cmake_refuses_is_a_failure(project):
    write(project, {"CMakeLists.txt": CMAKE.replace("add_library", "# add_library")})
    assert alone(project) == (1, "")
    write(project, {"CMakeLists.txt": "mistake()\n"})
    assert alone(project) == (1, "")


@pytest.mark.parametrize("arguments", [["0"], ["-1"], ["many"], ["1", "2"]])
def test_a_count_that_is_none_is_refused_with_the_usage(arguments):
    done = subprocess.run([ROOT / "scripts" / "alone", *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and "usage: scripts/alone [COUNT | all]" in done.stderr, done
