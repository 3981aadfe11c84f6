"""Random rules: the drivers' packer and that of `rtrain submit` leave out the same files as git."""

from __future__ import annotations

import io
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tarfile
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "runtime" / "python"))

from rtrain.train._archive import _package

SEEDS = 300  # one case of the table each
NAMES = [
    *("a", "b", "ab", "abc", "data", "x.c", "y.csv", ".a", "-", "a-c"),
    *("é", "aé", "a b", "a ", "a\t", "[a]", "a]b", "!a", "#b", "a\\", "*", "A1"),
]
PARTS = [
    *(
        "a",
        "b",
        "ab",
        "data",
        ".c",
        "é",
        "-",
        " ",
        "\t",
        "/",
        "/",
        "/",
        "*",
        "*",
        "**",
        "***",
        "?",
        "\\",
        "\\a",
        "\\/",
        "\\*",
        "\\ ",
        "]",
        "!",
    ),
    *(
        "[ab]",
        "[!a]",
        "[^b]",
        "[a-c]",
        "[]a]",
        "[!]a]",
        "[a\\]]",
        "[a\\]",
        "[Z-\\]]",
        "[c-a]",
        "[a-c-z]",
        "[a/b]",
        "[",
        "[!]",
        "[\\\\]",
    ),
    *("[[:alpha:]]", "[[:foo:]]", "[[:digit:]", "[[:space:]]", "[![:lower:]]", "[[:punct:]-z]", "[é]", "[!é]"),
]
WHOLE = [
    "*",
    "*/",
    "!*/",
    "**",
    "/*",
    "!/data",
    "data/**",
    "!data/**/",
    "!data/**/*.c",
    "**/",
    "**/a",
    "a/**/b",
    "!*.c",
    "# a",
    "!",
    "/",
    "//",
    "",
    "!a/",
]


def rule(chance: random.Random) -> str:
    if chance.random() < 0.35:
        return chance.choice(WHOLE)
    return chance.choice(["", "", "", "!", "/", "#"]) + "".join(chance.choice(PARTS) for _ in range(chance.randint(1, 5)))


def laid_out(seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """Makes a case of the table: a tree of files, and a .gitignore at its top and in some of its folders."""
    chance = random.Random(seed)
    names = chance.sample(NAMES, 5)
    contents = {"/".join(chance.choice(names) for _ in range(chance.randint(1, 4))): "" for _ in range(12)}
    folders = {path.rpartition("/")[0] for path in contents}
    for above in ("", *(inner for inner in sorted(folders) if chance.random() < 0.3)):
        ends = chance.choice(["\n", "\n", "\r\n"])
        contents[f"{above}/.gitignore".lstrip("/")] = ends.join(rule(chance) for _ in range(chance.randint(1, 4)))
    written = {}
    for path, content in sorted(contents.items()):
        try:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content, newline="")
        except OSError:  # a folder has the file's name, or the other way round
            continue
        written[path] = content
    return {"case": f"seed {seed}", "ignore": {path: text for path, text in written.items() if text}, "files": list(written)}


@pytest.fixture(scope="module")
def cases(tmp_path_factory) -> list[dict[str, Any]]:
    """Returns the table with git's answers. Each case has a folder of one work tree, in which its rules hold."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    top = tmp_path_factory.mktemp("tree")
    trees = [laid_out(seed, top / str(seed)) for seed in range(SEEDS)]
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_DIR": str(top / ".git")}
    for command in (["init", "-q"], ["ls-files", "-z", "--others", "--exclude-standard"]):
        out = subprocess.run(["git", *command], cwd=top, env=environment, capture_output=True, check=True).stdout
    listed = set(out.decode().split("\0"))
    for seed, case in enumerate(trees):
        case["travels"] = [name for name in case["files"] if f"{seed}/{name}" in listed]
        case["stays"] = [name for name in case.pop("files") if f"{seed}/{name}" not in listed]
        case["folder"] = str(top / str(seed))
    return trees


def test_the_cases_have_something_to_decide(cases) -> None:
    assert sum(bool(case["travels"]) and bool(case["stays"]) for case in cases) > SEEDS / 4


def test_the_drivers_packer_leaves_out_what_git_does(cases) -> None:
    for case in cases:
        packed = _package.pack_directory(pathlib.Path(case["folder"]), named=True)
        with tarfile.open(fileobj=io.BytesIO(_package.decompressed(packed.content))) as tar:
            names = sorted(member.name for member in tar if not member.isdir())
            assert names == sorted(case["travels"]), json.dumps(case, ensure_ascii=False, indent=1)


def test_the_packer_of_the_command_line_does_too(cases, tmp_path) -> None:
    """Runs the unit test that reads the table of tests/ignore_cases.json."""
    program = os.environ.get("RTRAIN_TEST_SPEC")
    if program is None:
        pytest.skip("needs RTRAIN_TEST_SPEC, the program of unit.spec")
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    environment = {**os.environ, "RTRAIN_IGNORE_CASES": str(tmp_path / "cases.json")}
    ran = subprocess.run(
        [program, "ignore files are read as the table says*"], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout
    assert f"{1 + 3 * SEEDS} assertions" in ran.stdout, ran.stdout
