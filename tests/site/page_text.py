"""Markdown pages of the repository: their fenced blocks, and the code within their sentences."""

from __future__ import annotations

import functools
import pathlib
import re
import subprocess
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w{}]*) *\n(?P<text>.*?)^(?P=indent)``` *$", re.M | re.S)
SPAN = re.compile(r"(?<!`)(`+)(?!`)((?:(?!\n\s*\n).)+?)(?<!`)\1(?!`)", re.S)


class Code(NamedTuple):
    """A piece of a page. `line` is the number of its first line; `language` is empty for a block that names none."""

    line: int
    text: str
    language: str = ""


def page_names() -> list[str]:
    """Returns the pages whose statements must hold: every Markdown file but the list of changes, which is about the past."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in out.splitlines() if name != "CHANGELOG.md" and (ROOT / name).is_file()]


def tracked_files() -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in out.split("\0") if name and (ROOT / name).is_file()]


@functools.cache
def sources() -> list[str]:
    """Returns the texts of all files of the repository that are no pages, and no pictures."""
    names = [name for name in tracked_files() if not name.endswith((".md", ".png", ".svg", ".db", ".gz", ".zst"))]
    return [(ROOT / name).read_text(errors="replace") for name in names if not name.startswith(("tests/data/", "tests/site/"))]


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def blocks(text: str) -> list[Code]:
    pieces = []
    for match in FENCE.finditer(text):
        indent = len(match["indent"])
        lines = [line[indent:] for line in match["text"].splitlines()]
        pieces.append(Code(line_of(text, match.start("text")), "\n".join(lines), match["language"]))
    return pieces


def without_blocks(text: str) -> str:
    """Returns the page with empty lines in place of its blocks, so that line numbers stay."""
    return FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)


def spans(text: str) -> list[Code]:
    """Returns the code in sentences and tables. A piece that goes over a line's end has one space there."""
    prose = without_blocks(text)
    return [Code(line_of(prose, match.start()), " ".join(match[2].split())) for match in SPAN.finditer(prose)]
