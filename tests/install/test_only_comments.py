"""Tests that scripts/only_comments accepts a change of comments, and refuses each kind of change that tools or readers of
`--help` see.
"""

import subprocess

import pytest
from local_cluster import ROOT
from test_alone import git, write

CPP = "// The sum.\nint sum(int a) {\n  return a + 1;  // one more\n}\n"
PYTHON = '"""A module."""\n\n\ndef double(x):\n    """Returns the double."""\n    return 2 * x  # noqa: B000\n'
SCRIPT = '// A link.\nexport const link: string = "//x"; /* a text */\nexport const page = <a href={link}>http://a/b</a>;\n'

COMMENTS_ALONE = [
    ("a.cpp", CPP, "/* Returns the sum. */\nint sum(int a)\n{ return a + 1; }\n"),
    ("a.h", "#define ONE 1  // one\nint a;\n", "#define ONE 1\n// A number.\nint a;\n"),
    ("a.c", "int a; /* a */\n", "int a;\n"),
    ("a.hpp", "// a\n#define A(x) \\\n  f(x)  // x\n", "#define A(x) \\\n  f(x)\n"),
    ("a.hpp", 'auto text = R"(// "text)";  // "\n', "// A 'text'.\n" + 'auto text = R"(// "text)";\n'),
    (
        "a.py",
        PYTHON,
        PYTHON.replace("Returns the double", "Doubles").replace('"""A module."""', '"""Arithmetic."""\n# A comment.'),
    ),
    ("a.py", PYTHON, PYTHON.replace('    """Returns the double."""\n', "")),
    ("a.py", PYTHON + "print(__doc__)\n", PYTHON.replace("the double", "twice") + "print(__doc__)\n"),
    ("tool", "#!/usr/bin/env python3\na = 1  # a\n", "#!/usr/bin/env python3\na = 1\n"),
    ("a.tsx", SCRIPT, SCRIPT.replace("// A link.", "/** The page's link. */").replace(" /* a text */", "  // a text")),
    ("a.mjs", "// a\nexport const big = 1n;\n", "export const big = 1n;\n"),
]
MORE_THAN_COMMENTS = [
    ("a.cpp", CPP, CPP.replace("a + 1", "a + 2"), "changes code"),
    ("a.cpp", CPP, CPP.replace("return a", "// return a"), "changes code"),
    ("a.cpp", "#define A 1 /* a */ + 2\n", "#define A 1\n/* a */ + 2\n", "changes code"),
    ("a.cpp", 'auto a = "a  b";\n', 'auto a = "a b";\n', "changes code"),
    ("a.cpp", "int a; // NOLINT(x)\n", "int a;\n", "changes code"),
    ("a.cpp", "// clang-format off\nint a;\nint b;\n", "int a;\n// clang-format off\nint b;\n", "changes code"),
    ("a.py", PYTHON, PYTHON.replace("2 * x", "3 * x"), "changes code"),
    ("a.py", PYTHON, PYTHON.replace("  # noqa: B000", ""), "changes code"),
    ("a.py", "a = 1  # type: int\n", "# type: int\na = 1\n", "changes code"),
    (
        "a.py",
        PYTHON + "print(double.__doc__)\n",
        PYTHON.replace("the double", "twice") + "print(double.__doc__)\n",
        "changes code",
    ),
    ("a.py", PYTHON + "print(__doc__)\n", PYTHON.replace("A module", "Numbers") + "print(__doc__)\n", "changes code"),
    ("a.py", PYTHON, PYTHON + ")\n", "cannot be read: unmatched ')'"),
    ("a.tsx", SCRIPT, SCRIPT.replace("http://a/b", "http://a/c"), "changes code"),
    ("a.tsx", SCRIPT, SCRIPT.replace("link: string", "link: any"), "changes code"),
    ("a.ts", "// @ts-expect-error a reason\nf();\n", "// a reason\nf();\n", "changes code"),
    ("a.mjs", "f(1n);\n", "f(2n);\n", "changes code"),
    ("a.mjs", "f();\n", "f(;\n", "cannot be read"),
    ("a.cmake", "# a\n", "# b\n", "is in no language that this script reads"),
]


def only_comments(folder, *arguments):
    done = subprocess.run([ROOT / "scripts" / "only_comments", *arguments], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("name", "before", "after"), COMMENTS_ALONE)
def test_a_change_of_comments_passes_in_the_tree_and_as_a_range(tmp_path, name, before, after):
    write(tmp_path, {name: before}, "before")
    write(tmp_path, {name: after})
    passed = (0, "only_comments: 1 changed files, 0 with more than comments\n", "")
    assert only_comments(tmp_path) == passed
    write(tmp_path, {}, "after")
    assert only_comments(tmp_path, "HEAD~1..HEAD") == passed == only_comments(tmp_path, "HEAD~1")


@pytest.mark.parametrize(("name", "before", "after", "why"), MORE_THAN_COMMENTS)
def test_a_change_of_more_names_its_file_and_fails(tmp_path, name, before, after, why):
    write(tmp_path, {name: before, "same.cpp": "// a\n"}, "before")
    write(tmp_path, {name: after, "same.cpp": "// b\n"})
    code, printed, errors = only_comments(tmp_path)
    assert (code, errors) == (1, "") and printed.startswith(f"{name}: {why}"), printed
    assert printed.endswith("only_comments: 2 changed files, 1 with more than comments\n"), printed


@pytest.mark.parametrize("change", ["new", "removed", "renamed", "mode"])
def test_a_file_that_is_new_gone_renamed_or_executable_fails(tmp_path, change):
    write(tmp_path, {"a.cpp": "int a;\n"}, "before")
    if change == "new":
        write(tmp_path, {"b.cpp": "// b\n"})
    elif change == "mode":
        (tmp_path / "a.cpp").chmod(0o755)
    else:
        git(tmp_path, *(["rm", "-q", "a.cpp"] if change == "removed" else ["mv", "a.cpp", "b.cpp"]))
    code, printed, _ = only_comments(tmp_path)
    assert code == 1 and ".cpp: is new, removed, or has another mode\n" in printed, printed


@pytest.mark.parametrize(("arguments", "error"), [(["nowhere"], "nowhere"), (["--all"], "usage: "), (["a", "b"], "usage: ")])
def test_an_argument_that_names_no_commit_is_refused(tmp_path, arguments, error):
    write(tmp_path, {"a.cpp": "int a;\n"}, "before")
    code, printed, errors = only_comments(tmp_path, *arguments)
    assert code == 2 and printed == "" and error in errors, errors
