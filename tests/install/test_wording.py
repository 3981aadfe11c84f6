"""Tests the rules of docs/style.md in scripts/tidy: sentences, names, and references without a target. Each planted breach
is found.
"""

import pathlib
import subprocess
import sys

import pytest
from rules import wording
from rules.comments import comments_of
from rules.references import reference_breaches

CPP = "// A comment of\n// two lines.\nint a = f(\"// no comment\");  // the first\n/* Another\n * one. */\nchar b = '\"';  // second\nint c = 1'000;  // third\n"
PYTHON = '"""A module."""\n# One\n# comment.\na = "# no comment"  # beside code\n\n\ndef f():\n    """Returns.\n\n    More."""\n'
SCRIPT = 'const a = `// no comment`; // a\n/** A link. */\nconst b = <a href="http://a">don\'t</a>; // b\n'
CMAKE = "# Two\n# lines.\nset(a b) # c\n"

BREACHES = [
    ("a.cpp", "// Of the runs, the first.\n", "a sentence begins with 'Of'"),
    ("a.cpp", "int a;  // of the runs\n", "a sentence begins with 'of'"),
    ("a.hpp", "/* Adds a run. Whoever waits is started. */\n", "a sentence begins with 'Whoever'"),
    ("a.py", '"""Starts a run.\n\nNobody waits."""\n', ""),
    ("a.py", 'def f():\n    """What the run prints."""\n', "a sentence begins with 'What'"),
    ("a.py", "a = 1  # One that waits.\n", "a sentence begins with 'One that'"),
    ("a.cpp", "// Returns the run. None: it has ended.\n", "a sentence begins with 'None'"),
    ("a.py", "# None: the run has ended.\n", ""),
    ("a.ts", "// Which run is shown.\n", "a sentence begins with 'Which'"),
    ("a.cpp", "// Removes the run once the head knows its end.\n", "'head knows'"),
    ("a.py", "# The agents tell the head.\n", "'agents tell'"),
    ("a.tsx", "/* The worker goes on. */\n", "'worker goes on'"),
    ("a.cpp", "// Returns the runs of which the head stores the end. See `node leave`.\n", ""),
    ("a.py", 'a = "Of the runs, which the head knows"\n', ""),
]
NAMES = [
    ("a.cpp", "int ledger;\n", "ledger says 'ledger'"),
    ("a.cpp", "int board; // a ledger\n", "board says 'board'"),
    ("a.py", "def until_told():\n    pass\n", "until_told says 'told'"),
    ("a.py", "class Hub:\n    pass\n", "Hub says 'hub'"),
    ("a.py", "f(x.hub, one=1)\n", ""),
    ("a.py", "def f(one):\n    pass\n", "the name 'one' says nothing"),
    ("a.ts", "const askAgain = 1;\n", "askAgain says 'ask'"),
    ("a.ts", "runs.map((one) => one.name);\n", "the name 'one' says nothing"),
    ("a.ts", "const text = 'ask the hub'; // ask\n", ""),
    ("runtime/python/rtrain/data/_dealing/a.py", "ask = 1\n", ""),
]
REFERENCES = [
    ("a.cpp", "// As in gone.cpp.\n", "there is no gone.cpp"),
    ("a.cpp", "// As in b/here.py and here.py, and nvml.h.\n", ""),
    ("a.cpp", "// Holds `gone_mutex` meanwhile.\n", "no code has the name `gone_mutex`"),
    ("a.cpp", "// Holds `Here::here_mutex` meanwhile, or `word`.\n", ""),
    ("a.md", "See `gone_name()`.\n", "no code has the name `gone_name`"),
    ("a.py", "# Decision 0007 says why.\n", "there is no decision 0007"),
    ("a.cmake", "# Breaks design 8.\n", "'design 8' is in no document"),
    ("a.hpp", "// The kinds (conventions 12).\n", "'conventions 12' is in no document"),
    ("a.hpp", "// Fenced (design: fencing), by decision 0001.\n", "'(design: fencing)' is in no document"),
    ("docs/decisions/0002-two.md", "# Two\n", "its heading is not '# 0002: ...'"),
    ("a.cpp", "// Holds gone_mutex meanwhile.\n", "no code has the name gone_mutex"),
    ("a.cpp", "// Holds here_mutex meanwhile, see gone-by_name, a.b_c and f(b_c=1).\n", ""),
    ("a.md", "See tests/gone.\n", "there is no tests/gone"),
    ("a.md", "See `storage/b`, `storage/b/here`, storage/b/here.py and storage/b/*.md.\n", ""),
    ("storage/a.md", "See `tests/fake/page`.\n", ""),
    ("a.md", "`here.py` in `storage/b` does it, `here.py` in `b` as well.\n", ""),
    ("a.md", "1. `here.py` in\n   `storage/tests` does it.\n", "there is no here.py in storage/tests"),
    ("a.md", "It is `here_mutex` in `c.cpp`.\n", ""),
    ("a.md", "It is `here_mutex` in `here.py`.\n", "here.py has no `here_mutex`"),
    ("docs/decisions/README.md", "# Decisions\n", "lists 0001 0 times"),
    ("docs/decisions/README.md", "- [0001](0001-one.md) one\n- [0001](0001-one.md) one\n", "lists 0001 2 times"),
    ("docs/decisions/README.md", "- 0001 was never given\n", "says that 0001 was never given"),
    ("docs/decisions/README.md", "- 0002 was never given\n- [0001](0001-one.md) one\n", "not in order"),
]


@pytest.mark.parametrize(
    ("name", "text", "comments"),
    [
        ("a.cpp", CPP, [(1, "A comment of two lines."), (3, "the first"), (4, "Another one."), (6, "second"), (7, "third")]),
        ("a.py", PYTHON, [(1, "A module."), (2, "One comment."), (4, "beside code"), (8, "Returns.\n\nMore.")]),
        ("a.tsx", SCRIPT, [(1, "a"), (2, "A link."), (3, "b")]),
        ("a.cmake", CMAKE, [(1, "Two lines."), (3, "c")]),
    ],
)
def test_comments_are_read_with_their_first_line(name, text, comments):
    assert [(comment.line, comment.text) for comment in comments_of(name, text)] == comments


@pytest.mark.parametrize(("name", "text", "breach"), BREACHES)
def test_a_breach_in_a_sentence_is_found(name, text, breach):
    breaches = list(wording.sentence_breaches(name, text))
    assert breach in "".join(breaches) and len(breaches) == (breach != ""), breaches


@pytest.mark.parametrize(("name", "text", "breach"), NAMES)
def test_a_word_of_the_table_is_found_in_a_name(name, text, breach):
    breaches = list(wording.name_breaches(name, text))
    assert breach in "".join(breaches) and bool(breaches) == (breach != ""), breaches


def test_a_word_of_the_table_is_found_in_the_name_of_a_file():
    assert "says 'doors'" in "".join(wording.file_name_breaches("tests/unit/doors.cpp"))
    assert list(wording.file_name_breaches("tests/unit/outdoors.cpp")) == []


@pytest.mark.parametrize(("name", "text", "breach"), REFERENCES)
def test_a_reference_to_nothing_is_found(tmp_path, monkeypatch, name, text, breach):
    tree = {
        "storage/b/here.py": "",
        "storage/tests/fake/page.ts": "",
        "c.cpp": "int here_mutex;  // gone, absent\n",
        "docs/decisions/0001-one.md": "# 0001: One\n",
        "docs/decisions/README.md": "- [0001](0001-one.md) one\n",
        name: text,
    }
    if name.startswith("docs/decisions/0002"):
        tree["docs/decisions/README.md"] += "- [0002](0002-two.md) two\n"
    for file, content in tree.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    monkeypatch.chdir(tmp_path)
    breaches = list(reference_breaches(tree))
    assert breach in "".join(breaches) and len(breaches) == (breach != ""), breaches


def test_a_sample_is_picked_by_its_seed_and_needs_no_package():
    root = pathlib.Path(__file__).resolve().parents[2]
    command = [sys.executable, "-S", "scripts/tidy", "--sample", "tests/site", "--count", "3", "--seed"]
    first, again, other = (
        subprocess.run([*command, seed], cwd=root, capture_output=True, text=True, check=True).stdout for seed in ("7", "7", "8")
    )
    assert first.startswith("3 of ") and "in tests/site, seed 7\n" in first
    assert first == again != other
