"""Finds references to things that are not in the repository: files, names of code in backquotes, decisions, documents.

A reader searches for what a comment names. The name of removed code leads nowhere.
"""

import bisect
import pathlib
import re
from collections.abc import Iterable, Iterator

from rules.comments import comments_of

DECISIONS = "docs/decisions/"
INDEX = f"{DECISIONS}README.md"
NEVER_GIVEN = re.compile(r"(\d{4}) was never given")
FILE = re.compile(r"(?<![\w./{}*<>-])((?:[\w-]+/)*[\w-]+\.(?:cpp|hpp|h|c|py|tsx?|mjs|cmake))\b(?![\w(])")
PATH = re.compile(
    r"(?<![\w./{}*<>$-])((?:cmd|configs|daemon|docs|examples|packaging|runtime|scheduler|scripts|storage|tests)/[\w./-]*\w)(?![\w*{<-])"
)
IN_FOLDER = re.compile(r"`([\w./-]+\.(?:cpp|hpp|c|h|py|tsx?|mjs))` (?:in|of) `([\w./-]+)`")
IN_FILE = re.compile(r"`(?:\w+(?:::|\.))*(\w+)(?:\(\))?` (?:in|of) `([\w./-]+\.(?:cpp|hpp|c|h|py|tsx?|mjs))`")
PLAIN_SYMBOL = re.compile(r"(?<![\w`./$<:=\"'-])([a-z]+(?:_[a-z0-9]+)+)\b(?![/.(=\"'-])")
SYMBOL = re.compile(r"`(?:[A-Za-z_]\w*(?:\.|::|->))*([A-Za-z_]\w*)(?:\(\))?`")
DECISION = re.compile(r"\b[Dd]ecisions? (\d{4})\b|\b(00\d\d)(?=[-),.;: ]|$)(?!-\d)")
ELSEWHERE = re.compile(
    r"\b(?:[Dd]esign|[Cc]onventions?),? (?:section )?\d+\b|\((?:design|conventions?)(?:[:,][^)]*)?\)|\b[Dd]esign,? section\b"
)
# Files and names of other projects (libraries, systemd, Slurm, Kubernetes, AWS), and examples of a user's files.
FILES_OF_OTHERS = set(
    "nvml.h nccl.h cuda_runtime_api.h sysexits.h magic.h fuse.h host_config.h oom_kill.c memcontrol.c ProcessGroupGloo.hpp gpu.cpp SCRIPT.py a.py b.py beside.py "
    "random.py".split()
)
NAMES_OF_OTHERS = set(
    "preprocessors read_sql read_mongo read_webdataset read_tfrecords AggregateFn Repeater breakpoint async_save Emitter sd_notify RestartSteps "
    "TimeoutStopSec no_new_privs F_SETLEASE sched_autogroup anongid BeginTime gres warm_runs gpu0_utilization_ratio _TASK_ID close_notify "
    "prctl_mm_map my_address join_ring".split()
)
PATHS_OF_OTHERS = {"docs/index"}  # a page that Sphinx makes
TEST_OF_FILES = "tests/install/"  # these tests name files of the projects that they write


class Tree:
    """All names to which a reference may point."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = sorted(names)
        self.texts = {name: text for name in self.names if (text := text_of(name)) is not None}
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
        return re.sub(r"\\[nt]", " ", "\n".join(lines))  # line ends in texts are no letters of names

    def has_file(self, path: str) -> bool:
        if pathlib.Path(path).name in FILES_OF_OTHERS:
            return True
        return any(name == path or name.endswith("/" + path) for name in self.texts) if "/" in path else path in self.files

    def has_path(self, path: str) -> bool:
        """True if a file or folder has the path, or its beginning up to a dot or a hyphen."""
        if path in PATHS_OF_OTHERS or pathlib.Path(path).name in FILES_OF_OTHERS:
            return True
        place = bisect.bisect_left(self.names, path)
        return re.match(rf"{re.escape(path)}(?:[/.-]|$)", self.names[place]) is not None if place < len(self.names) else False

    def files_named(self, path: str) -> list[str]:
        return [name for name in self.texts if name == path or name.endswith("/" + path)]

    def misplaced(self, text: str) -> Iterator[str]:
        """Yields the faults of "`file` in `folder`" and "`name` in `file`"."""
        for match in IN_FOLDER.finditer(text):
            inside = f"/{match[2].strip('/')}/"
            is_file = "." in pathlib.Path(match[2]).name
            if not is_file and not any(inside in f"/{pathlib.Path(name).parent}/" for name in self.files_named(match[1])):
                yield f"there is no {match[1]} in {match[2]}; name its folder as it is now"
        for match in IN_FILE.finditer(text):
            files = self.files_named(match[2])
            if files and not any(re.search(rf"\b{match[1]}\b", self.texts[name]) for name in files):
                yield f"{match[2]} has no `{match[1]}`; name the file that has it now"

    def has_name(self, name: str) -> bool:
        """Returns true if code has the name, or a test's name contains it: `pytest -k` takes a part of a name."""
        return name in self.words or name in NAMES_OF_OTHERS or any(f"_{name}_" in test for test in self.tests)

    def missing(self, text: str, folder: str) -> Iterator[str]:
        """Yields the faults of the references in a comment or a paragraph. Its paths begin at the root or in its `folder`."""
        for match in FILE.finditer(text):
            if not self.has_file(match[1]):
                yield f"there is no {match[1]}; name the file as it is now"
        for match in SYMBOL.finditer(text):
            if ("_" in match[1].strip("_") or re.search("[a-z][A-Z]", match[1])) and not self.has_name(match[1]):
                yield f"no code has the name `{match[1]}`; name what is there now"
        for match in PATH.finditer(text):
            if not FILE.fullmatch(match[1]) and not self.has_path(match[1]) and not self.has_path(f"{folder}/{match[1]}"):
                yield f"there is no {match[1]}; name the path as it is now"
        yield from self.misplaced(text)
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
            pieces = list(paragraphs(NEVER_GIVEN.sub("", text) if name == INDEX else text))
        elif name.startswith(TEST_OF_FILES):
            continue
        for line, piece in pieces:
            yield from (f"{name}:{line}: {why}" for why in tree.missing(piece, str(pathlib.Path(name).parent)))
        for comment in tree.comments[name]:
            for match in PLAIN_SYMBOL.finditer(comment.text):
                if not tree.has_name(match[1]):
                    yield f"{name}:{comment.line}: no code has the name {match[1]}; name what is there now"
    yield from decision_breaches(tree)


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines of a page with their numbers. The lines of a paragraph or an item are joined, since a sentence may wrap."""
    first, held, is_code = 0, "", False
    for number, line in enumerate(text.split("\n"), 1):
        is_fence = line.lstrip().startswith("```")
        alone = is_code or is_fence or not line.strip() or re.match(r"\s*(?:[-*|#>]|\d+\.) ?", line) is not None
        if alone and held:
            yield first, held
            held = ""
        is_code ^= is_fence
        if is_code or is_fence:
            yield number, line
        else:
            first, held = (first, f"{held} {line.strip()}") if held else (number, line.strip())
    if held:
        yield first, held


def decision_breaches(tree: Tree) -> Iterator[str]:
    """Yields the decisions whose heading lacks their number, and the numbers that the index lacks."""
    for name, text in tree.texts.items():
        match = re.match(rf"{DECISIONS}(\d{{4}})-", name)
        if match and not text.startswith(f"# {match[1]}: "):
            yield f"{name}:1: its heading is not '# {match[1]}: ...'"
    index = tree.texts.get(INDEX, "")
    listed = re.findall(rf"^- (?:\[(\d{{4}})\]\(\1-|{NEVER_GIVEN.pattern})", index, re.MULTILINE)
    numbers = [int(linked or never_given) for linked, never_given in listed]
    for number in range(1, max(map(int, tree.decisions), default=0) + 1 if index else 0):
        if numbers.count(number) != 1:
            yield f"{INDEX}:1: lists {number:04} {numbers.count(number)} times; list each number once, also one that was never given"
    if numbers != sorted(numbers):
        yield f"{INDEX}:1: its numbers are not in order"
    for _, never_given in listed:
        if never_given in tree.decisions:
            yield f"{INDEX}:1: says that {never_given} was never given, and the decision is there"
