"""Tests how the binary and the workers' library are built. Reads from the files what the loader and the processor enforce."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest
from local_cluster import RTRAIN

BUILD = pathlib.Path(RTRAIN).parent
LIBRARY = pathlib.Path(os.environ.get("RTRAIN_TEST_WORKER_LIB", BUILD / "librtrain_worker.so"))
# Folders of the sources that the two files are linked from.
PARTS = ("base", "scheduler", "storage", "runtime/CMakeFiles", "runtime/worker", "daemon", "cmd")
FOLDERS = {part.split("/")[0] for part in PARTS}
each = pytest.mark.parametrize("file", [pathlib.Path(RTRAIN), LIBRARY], ids=["binary", "library"])


def readelf(*arguments):
    command = ["readelf", "-W", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={"LC_ALL": "C", **os.environ}).stdout


def segments(file):
    """Returns [(type, flags)] of the program headers."""
    return re.findall(r"^  ([A-Z_]+) .* ([R ][W ][E ]) 0x[0-9a-f]+$", readelf("-l", file), re.M)


@each
def test_it_is_loaded_at_any_address(file):
    assert re.search(r"Type:\s+DYN", readelf("-h", file))
    if file == pathlib.Path(RTRAIN):
        assert "PIE" in re.search(r"\(FLAGS_1\).*", readelf("-d", file))[0]
    assert "TEXTREL" not in readelf("-d", file)


@each
def test_addresses_of_functions_are_read_only_once_it_runs(file):
    assert re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW", readelf("-d", file))
    assert "GNU_RELRO" in dict(segments(file))


@each
def test_nothing_is_both_written_and_executed(file):
    parts = segments(file)
    assert "LOAD" in dict(parts) and dict(parts)["GNU_STACK"] == "RW "
    assert [flags for _, flags in parts if "W" in flags and "E" in flags] == []


@each
def test_stacks_are_guarded_and_copies_are_bounded(file):
    imported = set(re.findall(r" UND (\w+)", readelf("--dyn-syms", file)))
    assert "__stack_chk_fail" in imported
    bounded = {name for name in imported if re.fullmatch(r"__\w+_chk", name)}
    assert bounded & {"__memcpy_chk", "__snprintf_chk"}, bounded


def flags_of_our_objects():
    """Returns the distinct sets of compiler flags of our objects."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    flags = set()
    for one in commands:
        words = shlex.split(one["command"])
        if pathlib.Path(one["directory"], words[words.index("-o") + 1]).relative_to(BUILD).parts[0] in FOLDERS:
            compiler = next(word for word in words if re.search(r"(cc|[+][+])(-\d+)?$", word) and "ccache" not in word)
            flags.add((compiler, *[word for word in words if re.match(r"-[fUO]|-D_FORTIFY|-std", word)]))
    return sorted(flags)


def test_every_object_of_ours_is_compiled_with_what_bounds_copies_best():
    """Requires fortify level 3, which also bounds sizes that are computed at run time. The C library may lower the requested
    level, so its macro is read.
    """
    flag_sets = flags_of_our_objects()
    assert len(flag_sets) > 2
    for compiler, *flags in flag_sets:
        language = "c++" if any("std=c++" in flag for flag in flags) else "c"
        command = [compiler, *flags, "-x", language, "-E", "-dM", "-include", "features.h", "/dev/null"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        macros = dict(re.findall(r"^#define (\w+) (.*)$", text, re.M))
        assert macros["__USE_FORTIFY_LEVEL"] == "3" and macros["__SSP_STRONG__"] == "3", flags
        assert macros.get("__PIE__", macros.get("__PIC__")) == "2", flags


def notes_of(files):
    """Returns {name: what readelf prints of the notes in that file}."""
    return dict(re.findall(r"^File: ([^\n]+)\n(.*?)(?=^File: |\Z)", readelf("-n", *files), re.M | re.S))


def test_notes_of_files_are_told_apart_where_a_path_has_a_space(tmp_path):
    place = tmp_path / "odd plätze"
    place.mkdir()
    files = [shutil.copy(LIBRARY, place / name) for name in ("one.so", "the other.so")]
    assert set(notes_of(files)) == set(map(str, files))


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="CET is of x86")
def test_every_object_of_ours_is_made_for_indirect_branch_tracking_and_shadow_stacks():
    """Checks each object that we compile. The linked file itself has no such mark, since Debian's static archives lack it."""
    objects = [file for part in PARTS for file in (BUILD / part).rglob("*.o")]
    assert len(objects) > 50  # a smaller number would mean that the search missed objects
    notes = notes_of(objects)
    assert [str(file) for file in objects if "IBT, SHSTK" not in notes.get(str(file), "")] == []
    text = subprocess.run(["objdump", "-d", "--disassemble=main", RTRAIN], check=True, capture_output=True, text=True).stdout
    assert "endbr64" in re.search(r"<main>:\n(.*)", text)[1]
