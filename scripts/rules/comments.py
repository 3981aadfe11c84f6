"""Reads the comments and docstrings of C, C++, Python, TypeScript, CMake and shell sources."""

import argparse
import ast
import functools
import pathlib
import random
import re
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

CPP = (".cpp", ".hpp", ".c", ".h")
SCRIPT = (".ts", ".tsx", ".mjs", ".js")
# A text, or a comment in the group. Texts end at the end of their line at the latest, so that an apostrophe in JSX opens none.
PIECE = re.compile(
    r"""R"(?P<raw>\w*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`|(?P<comment>(?<!:)//[^\n]*|/\*.*?\*/)""",
    re.DOTALL,
)
CPP_PIECE = re.compile(PIECE.pattern.replace(r"|`(?:\\.|[^`\\])*`", ""), re.DOTALL)
PYTHON_PIECE = re.compile(
    r"""\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(?P<comment>\#[^\n]*)""",
    re.DOTALL,
)
SAMPLED_LINES_BELOW = 2


class Comment(NamedTuple):
    """One comment without its marks. Adjacent lines of `//` or `#` form one comment."""

    line: int
    last_line: int
    text: str
    declared_at: int = 0  # the first line of a docstring's function, class or module; 0 for other comments


class Piece(NamedTuple):
    """One line of a comment."""

    line: int
    column: int
    trails: bool  # code precedes it in its line
    text: str


def piece_at(text: str, line: int, position: int, comment: str) -> Piece:
    begin = text.rfind("\n", 0, position) + 1
    return Piece(line, position - begin, bool(text[begin:position].strip()), comment)


def joined(pieces: list[Piece]) -> Iterator[Comment]:
    """Joins one-line comments. A comment behind code continues in the following lines that begin in its column."""
    parts: list[Piece] = []
    for piece in pieces:
        if parts and piece.text and not piece.trails and (piece.line, piece.column) == (parts[-1].line + 1, parts[0].column):
            parts.append(piece)
            continue
        if parts:
            yield Comment(parts[0].line, parts[-1].line, " ".join(part.text for part in parts))
        parts = [piece] if piece.text else []
    if parts:
        yield Comment(parts[0].line, parts[-1].line, " ".join(part.text for part in parts))


def plain(comment: str) -> str:
    """Removes the marks of a comment in C, C++ or TypeScript, and the decoration of Doxygen."""
    if comment.startswith("//"):
        return comment.lstrip("/!<").strip()
    lines = (line.strip().lstrip("*").strip() for line in comment[2:-2].lstrip("*!<").split("\n"))
    return " ".join(line for line in lines if line)


def cpp_comments(text: str, piece: re.Pattern[str]) -> Iterator[Comment]:
    short, line, counted = [], 1, 0
    for match in piece.finditer(text):
        comment = match["comment"]
        if not comment:
            continue
        line += text.count("\n", counted, match.start())
        counted = match.start()
        if comment.startswith("//"):
            short.append(piece_at(text, line, match.start(), plain(comment)))
        elif plain(comment):
            yield Comment(line, line + comment.count("\n"), plain(comment))
    yield from joined(short)


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yields the module and its statements. Expressions are skipped, as they contain no docstring."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, field, [])


def python_comments(text: str) -> Iterator[Comment]:
    for node in statements(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring:
                first = node.body[0].lineno
                declared_at = first if isinstance(node, ast.Module) else node.lineno
                yield Comment(first, node.body[0].end_lineno or 0, docstring, declared_at)
    pieces, line, counted = [], 1, 0
    for match in PYTHON_PIECE.finditer(text):
        if match["comment"]:
            line += text.count("\n", counted, match.start())
            counted = match.start()
            pieces.append(piece_at(text, line, match.start(), match["comment"].lstrip("#!: ")))
    yield from joined(pieces)


def hash_comments(text: str) -> Iterator[Comment]:
    """Yields the comments of CMake and shell. A `#` behind white space counts as one, also in a text."""
    pieces = []
    for number, line in enumerate(text.split("\n"), 1):
        if match := re.search(r"(?:^|(?<=\s))#(?!!)\s*(.*)", line):
            pieces.append(piece_at(line, number, match.start(), match[1]))
    yield from joined(pieces)


@functools.cache
def comments_of(name: str, text: str) -> list[Comment]:
    """Returns the comments of a file in the order of their lines; none for an unsupported language."""
    suffix = pathlib.Path(name).suffix
    if suffix == ".py" or (not suffix and re.match(r"#!.*\bpython", text)):
        read = python_comments(text)
    elif suffix in CPP:
        read = cpp_comments(text, CPP_PIECE)
    elif suffix in (".cmake", ".sh") or name.endswith("CMakeLists.txt") or (not suffix and text.startswith("#!")):
        read = hash_comments(text)
    else:
        read = cpp_comments(text, PIECE) if suffix in SCRIPT else iter(())
    return sorted(read)


def print_sample(arguments: list[str]) -> int:
    """Prints comments at random, each with its declaration: a docstring with the lines above it, others with two lines below."""
    parser = argparse.ArgumentParser(
        prog="scripts/tidy --sample", description="Prints comments of a folder at random, each with the declaration below it."
    )
    parser.add_argument("folder")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(10000))
    parser.add_argument(
        "--without", nargs="*", default=[], metavar="WORD", help="leave out files whose path contains one of these words"
    )
    given = parser.parse_args(arguments)
    listed = subprocess.run(["git", "ls-files", "-z", "--", given.folder], capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name and not any(word in name for word in given.without)]
    every = []
    for name in names:
        text = pathlib.Path(name).read_text(errors="replace")
        every += [
            (name, comment, text.split("\n"))
            for comment in comments_of(name, text)
            if not comment.text.startswith(("namespace", "----", "clang-format"))
        ]
    sample = random.Random(given.seed).sample(every, min(given.count, len(every)))
    print(f"{len(sample)} of {len(every)} comments in {given.folder}, seed {given.seed}")
    for name, comment, lines in sorted(sample, key=lambda picked: picked[:2]):
        first, below = (comment.declared_at, 0) if comment.declared_at else (comment.line, SAMPLED_LINES_BELOW)
        shown = lines[first - 1 : comment.last_line + below]
        print("\n".join([f"\n{name}:{comment.line}", *shown]))
    return 0
