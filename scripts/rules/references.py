"""Finds references to things that are not in the repository: files, names of code in backquotes, decisions, documents that are elsewhere.

A reader looks for what a comment names. A name that stayed behind when its code went leads nowhere.
"""

import pathlib
import re
from collections.abc import Iterable, Iterator

from rules.comments import comments_of

DECISIONS = "docs/decisions/"
FILE = re.compile(r"(?<![\w./{}*<>-])((?:[\w-]+/)*[\w-]+\.(?:cpp|hpp|h|c|py|tsx?|mjs|cmake))\b(?![\w(])")
SYMBOL = re.compile(r"`(?:[A-Za-z_]\w*(?:\.|::|->))*([A-Za-z_]\w*)(?:\(\))?`")
DECISION = re.compile(r"\b[Dd]ecisions? (\d{4})\b|\b(00\d\d)(?=[-),.;: ]|$)(?!-\d)")
ELSEWHERE = re.compile(
    r"\b(?:[Dd]esign|[Cc]onventions?),? (?:section )?\d+\b|\((?:design|conventions?)(?:[:,][^)]*)?\)|\b[Dd]esign,? section\b"
)
# Files and names of others: of libraries, systemd, Slurm, Kubernetes, AWS; and examples of a user's own files.
FILES_OF_OTHERS = set(
    "nvml.h nccl.h cuda_runtime_api.h sysexits.h magic.h fuse.h host_config.h oom_kill.c memcontrol.c ProcessGroupGloo.hpp gpu.cpp SCRIPT.py a.py b.py beside.py "
    "random.py".split()
)
NAMES_OF_OTHERS = set(
    "preprocessors read_sql read_mongo read_webdataset read_tfrecords AggregateFn Repeater breakpoint async_save Emitter sd_notify RestartSteps "
    "TimeoutStopSec no_new_privs F_SETLEASE sched_autogroup anongid BeginTime gres warm_runs gpu0_utilization_ratio _TASK_ID".split()
)
TEST_OF_FILES = "tests/install/"  # names files of the projects that it writes


class Tree:
    """The names that a reference can mean."""

    def __init__(self, names: Iterable[str]) -> None:
        self.texts = {name: text for name in names if (text := text_of(name)) is not None}
        self.files = {pathlib.Path(name).name for name in self.texts}
        self.comments = {name: comments_of(name, text) for name, text in self.texts.items()}
        self.decisions = {match[1] for name in self.texts if (match := re.match(rf"{DECISIONS}(\d{{4}})-", name))}
        self.words: set[str] = set()
        for name, text in self.texts.items():
            self.words.update(re.findall(r"\w+", name))
            if not name.endswith(".md"):
                self.words.update(re.findall(r"\w+", self.code_of(name, text)))

        self.tests = {word for word in self.words if word.startswith("test_")}

    def code_of(self, name: str, text: str) -> str:
        lines = text.split("\n")
        for comment in self.comments[name]:
            for number in range(comment.line - 1, comment.last_line):
                lines[number] = re.split(r"//|/\*|^\s*\*|#|\"\"\"", lines[number])[0] if comment.line == comment.last_line else ""
        return "\n".join(lines)

    def has_file(self, path: str) -> bool:
        if pathlib.Path(path).name in FILES_OF_OTHERS:
            return True
        return any(name == path or name.endswith("/" + path) for name in self.texts) if "/" in path else path in self.files

    def has_name(self, name: str) -> bool:
        """True if code has the name, or a test's name holds it: `pytest -k` takes a part of one."""
        return name in self.words or name in NAMES_OF_OTHERS or any(f"_{name}_" in test for test in self.tests)

    def missing(self, text: str) -> Iterator[str]:
        """Yields what is wrong with the references of one comment or one line of Markdown."""
        for match in FILE.finditer(text):
            if not self.has_file(match[1]):
                yield f"there is no {match[1]}; name the file as it is now"
        for match in SYMBOL.finditer(text):
            if ("_" in match[1].strip("_") or re.search("[a-z][A-Z]", match[1])) and not self.has_name(match[1]):
                yield f"no code has the name `{match[1]}`; name what is there now"
        for match in DECISION.finditer(text):
            if (match[1] or match[2]) not in self.decisions:
                yield f"there is no decision {match[1] or match[2]}"
        for match in ELSEWHERE.finditer(text):
            yield f"{match[0]!r} is in no document of this repository; say it here, or name a page of docs/"


def text_of(name: str) -> str | None:
    try:
        return pathlib.Path(name).read_text()
    except UnicodeDecodeError:
        return None


def reference_breaches(names: Iterable[str]) -> Iterator[str]:
    tree = Tree(names)
    for name, text in tree.texts.items():
        pieces = [(comment.line, comment.text) for comment in tree.comments[name]]
        if name.endswith(".md") and name != "CHANGELOG.md":
            pieces = list(enumerate(text.split("\n"), 1))
        elif name.startswith(TEST_OF_FILES):
            continue
        for line, piece in pieces:
            yield from (f"{name}:{line}: {why}" for why in tree.missing(piece))
    yield from decision_breaches(tree)


def decision_breaches(tree: Tree) -> Iterator[str]:
    """Yields the decisions whose heading lacks their number."""
    for name, text in tree.texts.items():
        match = re.match(rf"{DECISIONS}(\d{{4}})-", name)
        if match and not text.startswith(f"# {match[1]}: "):
            yield f"{name}:1: its heading is not '# {match[1]}: ...'"
