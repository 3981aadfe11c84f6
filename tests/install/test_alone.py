"""Tests scripts/alone in a small project: the files that it compiles, and that it names a file with a missing include."""

import json
import os
import re
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
    """Makes a repository in which b.cpp, and b.hpp (which c.cpp includes through c.hpp), have changed since the commit in
    .ci/alone.
    """
    (tmp_path / "scripts").mkdir()
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / "scripts" / "alone", tmp_path / "scripts")
    files = {"CMakeLists.txt": CMAKE, "CMakePresets.json": json.dumps(PRESET), ".gitignore": "build\n", "d.cpp": "int d;\n"}
    files |= {
        "a.cpp": "std::vector<int> broken_long_ago;\n",
        "b.hpp": "#pragma once\nstruct B {};\n",
        "c.hpp": '#include "b.hpp"\n',
    }
    files |= {"b.cpp": "int b;\n", "c.cpp": '#include "c.hpp"\nB c;\n'}
    write(tmp_path, files, "all")
    record(tmp_path)
    write(tmp_path, {"b.hpp": "#pragma once\nstruct B { int b; };\n", "b.cpp": "int b = 1;\n"}, "the last")
    return tmp_path


def record(folder):
    head = git(folder, "rev-parse", "HEAD").stdout
    write(folder, {".ci/alone": f"# Each file compiled.\n{head}"}, "a record")


def git(folder, *arguments):
    names = ["-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "init.defaultBranch=main"]
    # a hook that runs this test sets these
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", folder, *names, *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env={**environment, "GIT_CONFIG_GLOBAL": os.devnull}
    )


def write(folder, files, commit=None):
    for name, text in files.items():
        (folder / name).write_text(text)
    if commit:
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", commit]):
            git(folder, *command)


def alone(folder, *arguments):
    done = subprocess.run([folder / "scripts" / "alone", *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout


def test_what_was_changed_since_the_record_is_compiled_and_what_includes_a_changed_header(project):
    commit = git(project, "rev-parse", "--short=8", "HEAD~2").stdout.strip()
    changed = f"4 of 6 files, which were changed since {commit} or include what was"  # b.cpp, b.hpp, c.hpp, c.cpp
    assert alone(project) == (0, f"alone: {changed}: each compiles by itself\n")
    code, printed = alone(project, "all")
    assert code == 1 and printed.startswith("alone: a.cpp does not compile by itself:\n"), printed
    assert printed.endswith("alone: 6 of 6 files: 1 do not compile by themselves\n"), printed


def test_a_source_fails_when_a_header_that_it_has_by_another_loses_what_it_needs(project):
    write(project, {"b.hpp": "#pragma once\n"}, "a header loses B")
    code, printed = alone(project)
    assert (
        code == 1 and printed.startswith("alone: c.cpp does not compile by itself:\n") and "unknown type name 'B'" in printed
    ), printed


def test_a_source_fails_whose_header_was_deleted_also_where_it_is_named_with_angle_brackets(project):
    write(project, {"d.cpp": "#  include <b.hpp>\nB d;\n"}, "another user of b.hpp")
    record(project)
    (project / "b.hpp").unlink()
    code, printed = alone(project)
    failed = re.findall(r"^alone: (\S+) does not compile", printed, re.MULTILINE)
    assert code == 1 and failed == ["c.cpp", "c.hpp", "d.cpp"], printed


def test_a_header_of_c_and_cpp_is_compiled_as_both(project):
    sources = {
        "a.cpp": '#include "both.h"\n',
        "e.c": '#include <stdbool.h>\n#include "both.h"\n',
        "both.h": "extern bool both;\n",
    }
    write(project, sources | {"CMakeLists.txt": CMAKE.replace("four CXX", "four C CXX") + "add_library(more e.c)\n"})
    code, printed = alone(project)
    assert code == 1 and re.findall(r"^alone: (\S+) does not compile", printed, re.MULTILINE) == ["both.h"], printed


def test_a_changed_file_of_no_target_is_named(project):
    write(project, {"e.cpp": "int e;\n", "e.txt": "of no language"})
    done = subprocess.run([project / "scripts" / "alone"], capture_output=True, text=True)
    assert (
        done.returncode == 0 and done.stderr == "alone: changed, but in no target of this build, and so not compiled: e.cpp\n"
    ), done


def test_a_header_fails_that_only_its_user_gives_what_it_needs(project):
    write(project, {"c.hpp": "#pragma once\ninline B b;\n", "c.cpp": '#include "b.hpp"\n#include "c.hpp"\nB c;\n'})
    code, printed = alone(project)
    assert code == 1 and printed.startswith("alone: c.hpp does not compile by itself:\n"), printed
    assert "c.cpp does not" not in printed, printed


def test_what_is_not_committed_counts_as_changed(project):
    write(project, {"d.cpp": "Missing d;\n"})
    code, printed = alone(project)
    assert code == 1 and printed.startswith("alone: d.cpp does not compile by itself:\n"), printed


@pytest.mark.parametrize("name", ["e.cpp", "of two words.cpp", "größe.cpp"])
def test_a_source_that_git_does_not_know_yet_is_new_and_so_is_one_in_the_last_commit(project, name):
    write(project, {name: "Missing e;\n", "CMakeLists.txt": CMAKE + f'add_library(more "{name}")\n'})
    for commit in ("another source", None):
        code, printed = alone(project)
        assert code == 1 and printed.startswith(f"alone: {name} does not compile by itself:\n"), printed
        write(project, {}, commit)


def test_what_a_merge_brings_is_new_whichever_record_it_keeps(project):
    git(project, "checkout", "-q", "-b", "branch")
    write(project, {"d.cpp": "Missing d;\n"}, "on a branch")
    git(project, "checkout", "-q", "main")
    record(project)
    git(project, "merge", "-q", "-m", "merge", "branch")
    code, printed = alone(project)
    assert code == 1 and printed.startswith("alone: d.cpp does not compile by itself:\n"), printed


def test_a_record_is_written_where_all_that_was_changed_compiles_and_shortens_the_next_run(project):
    write(project, {"b.hpp": "#pragma once\n"}, "a header loses B")
    before = (project / ".ci" / "alone").read_text()
    assert alone(project, "--record")[0] == 1 and (project / ".ci" / "alone").read_text() == before
    write(project, {"b.hpp": "#pragma once\nstruct B {};\n"}, "and has it again")
    write(project, {"d.cpp": "int d = 2;\n"})
    # Refuses a tree with changes.
    assert alone(project, "--record") == (1, "") and (project / ".ci" / "alone").read_text() == before
    write(project, {}, "d")
    head = git(project, "rev-parse", "HEAD").stdout
    assert alone(project, "--record")[0] == 0 and (project / ".ci" / "alone").read_text().endswith(f"\n{head}")
    write(project, {"d.cpp": "int d = 3;\n"})
    assert alone(project)[1].startswith("alone: 1 of 6 files, which were changed since " + head[:8])


def test_nothing_is_recorded_where_the_tree_changes_while_the_compiler_runs(project):
    compiler = (
        '#!/bin/sh\ncase "$*" in *-fsyntax-only*) echo "int d = 3;" >"$(dirname "$0")/d.cpp";; esac\nexec clang++-16 "$@"\n'
    )
    write(project, {"compiler": compiler, "CMakePresets.json": json.dumps(PRESET).replace("clang++-16", "${sourceDir}/compiler")})
    (project / "compiler").chmod(0o755)
    write(project, {"a.cpp": "int a;\n"}, "a compiler that changes d.cpp")
    before = (project / ".ci" / "alone").read_text()
    code, printed = alone(project, "--record")
    assert code == 1 and printed.endswith(": each compiles by itself\n"), printed
    assert (project / ".ci" / "alone").read_text() == before


def test_a_record_after_a_change_of_flags_compiles_every_file(project):
    write(project, {"CMakeLists.txt": CMAKE + "add_compile_options(-Wall)\n"}, "a flag")
    assert alone(project)[0] == 0
    code, printed = alone(project, "--record")
    assert code == 1 and printed.startswith("alone: a.cpp does not compile by itself"), printed


@pytest.mark.parametrize("text", ["", "main\n", "0" * 40 + "\n", "a commit of another branch"])
def test_without_a_commit_that_this_one_descends_from_every_file_is_compiled(project, text):
    if text.startswith("a commit"):
        git(project, "checkout", "-q", "-b", "other", "HEAD~1")
        write(project, {"d.cpp": "int d = 4;\n"}, "elsewhere")
        record(project)
        text = (project / ".ci" / "alone").read_text()
        git(project, "checkout", "-q", "main")
    write(project, {".ci/alone": text})
    code, printed = alone(project)
    assert code == 1 and "alone: a.cpp does not" in printed and "alone: 6 of 6 files: 1 do not" in printed, printed


def test_a_shallow_clone_that_lacks_the_commit_compiles_every_file(project, tmp_path_factory):
    clone = tmp_path_factory.mktemp("shallow") / "clone"
    git(project, "clone", "-q", "--depth", "1", f"file://{project}", clone)
    assert "alone: 6 of 6 files: 1 do not" in alone(clone)[1]


def test_a_header_that_the_build_makes_is_made_and_nothing_else(project):
    sources = {"under.cpp": "int under;\n", "over.cpp": '#include "made.hpp"\nint over = answer;\n'}
    write(project, sources | {"template": "constexpr int answer = 42;\n", "CMakeLists.txt": CMAKE + GENERATED_HEADER})
    code, printed = alone(project)
    assert code == 0 and printed.startswith("alone: 6 of 8 files"), printed
    assert not list((project / "build").rglob("*.o"))


def test_a_folder_that_is_reached_by_a_link_is_the_same(project, tmp_path_factory):
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(project)
    write(project, {"d.cpp": "Missing d;\n"})
    done = subprocess.run(["scripts/alone"], cwd=link, env={**os.environ, "PWD": str(link)}, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout.startswith("alone: d.cpp does not compile by itself:\n"), done


def test_a_project_without_sources_or_that_cmake_refuses_is_a_failure(project):
    write(project, {"CMakeLists.txt": CMAKE.replace("add_library", "# add_library")})
    assert alone(project) == (1, "alone: the build has no source in this folder; nothing was compiled\n")
    write(project, {"CMakeLists.txt": "mistake()\n"})
    assert alone(project) == (1, "alone: nothing was compiled\n")


@pytest.mark.parametrize("arguments", [["0"], ["48"], ["every"], ["all", "--recorded"]])
def test_an_argument_that_is_none_is_refused_with_the_usage(arguments):
    done = subprocess.run([ROOT / "scripts" / "alone", *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and "usage: scripts/alone [all] [--record]" in done.stderr, done
