"""Which files of a working directory stay behind: the rules of .gitignore, and of .rtrainignore over them.

pathspec matches. What stands here is how git reads a file of rules, and what pathspec takes otherwise than git does. The table in
tests/ignore_cases.json runs against this, against the packer of the command line (storage/spec/archive) and against git itself.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pathspec import GitIgnoreSpec

_LAST = 0x10FFFF
_SET = re.compile(r"\\.|\[([!^]?)(\]?(?:\[:\w+:\]|\\.|[^\]\\])*)\]")  # an escaped character, or a set: its sign, what is in it
_IN_SET = re.compile(r"\[:(\w+):\]|\\?(.)", re.DOTALL)
_CLASSES = {
    **{
        "alnum": "09AZaz",
        "alpha": "AZaz",
        "blank": "  \t\t",
        "cntrl": "\x01\x1f\x7f\x7f",
        "digit": "09",
        "graph": "!~",
        "lower": "az",
    },
    **{"print": " ~", "punct": "!/:@[`{~", "space": "  \t\r", "upper": "AZ", "xdigit": "09AFaf"},
}


class Rules:
    """The last rule that fits a file decides. Rules of a folder hold below it; those of .rtrainignore stand behind all of .gitignore."""

    def __init__(self, first: Iterable[str]) -> None:
        self._git = _spec(first, "")
        self._own = _spec((), "")
        self._all = self._git

    def read(self, folder: pathlib.Path, inside: pathlib.Path) -> None:
        """Adds the rules that lie in `folder`, whose path from the top is `inside`. A file that cannot be read has none."""
        base = "" if inside == pathlib.Path() else inside.as_posix()
        git, own = (_spec(_lines(folder / name), base) for name in (".gitignore", ".rtrainignore"))
        if git or own:
            self._git, self._own = self._git + git, self._own + own
            self._all = self._git + self._own

    def ignored(self, inside: pathlib.Path, *, directory: bool) -> bool:
        """Whether it stays behind, by its path from the top. Asked of folders before what is in them: nothing brings back what lies in
        one that stays behind."""
        return self._all.check_file(inside.as_posix() + "/" * directory).include is True


def _lines(file: pathlib.Path) -> Iterable[str]:
    try:
        text = file.read_bytes().decode(errors="surrogateescape")
    except OSError:
        return []
    return [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]


def _spec(lines: Iterable[str], base: str) -> GitIgnoreSpec:
    patterns: list[Any] = []
    for line in lines:
        if pattern := _pattern(line, base):
            try:
                patterns += GitIgnoreSpec.from_lines([pattern]).patterns
            except ValueError:  # git reads such a line as a rule that fits nothing
                continue
    return GitIgnoreSpec(patterns)


def _pattern(line: str, base: str) -> str:
    """The line as pathspec takes it, from the top on. Empty: it is no rule."""
    rule = line.rstrip(" ")
    if (len(rule) - len(rule.rstrip("\\"))) % 2 and rule != line:
        rule += " "  # an escaped one
    keeps, rule = ("!", rule[1:]) if rule.startswith("!") else ("", rule)
    if not rule.strip("/") or line.startswith("#"):
        return ""
    rule = _SET.sub(_set_of, rule)
    rule = re.sub(r"[^\S ]+$", lambda blank: "".join(f"[\0{one}]" for one in blank[0]), rule)  # pathspec would cut it off
    if base:
        above = re.sub(r"([\\\[\]!*#?])", r"\\\1", base)
        rule = f"/{above}/{rule.removeprefix('/')}" if "/" in rule[:-1] else f"/{above}/**/{rule}"
    return keeps + rule


def _set_of(part: re.Match[str]) -> str:
    """A set without ranges of another meaning to pathspec: classes such as [:digit:] are written out, a backslash escapes, and no set
    has a slash in it, by no sign."""
    if part[0][0] == "\\":
        return part[0]
    ranges = sorted(_ranges(part[2]))
    if part[1]:
        ranges = list(_between(ranges))
    fragments = list(_without("/", _without("]", _without("-", ranges))))
    first = "]" if any(low <= ord("]") <= high for low, high in ranges) else "\0"  # no name has a NUL: any sign may follow it
    last = "-" if any(low <= ord("-") <= high for low, high in ranges) else ""
    return "[" + first + "".join(f"{chr(low)}-{chr(high)}" if low < high else chr(low) for low, high in fragments) + last + "]"


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    """The first and the last character of each range in a set."""
    parts = [(one[1] or "", one[2] or "", one[0]) for one in _IN_SET.finditer(text)]
    place = 0
    while place < len(parts):
        name, low, _ = parts[place]
        if name:
            ends = _CLASSES.get(name, "")
            yield from ((ord(ends[at]), ord(ends[at + 1])) for at in range(0, len(ends), 2))
        elif place + 2 < len(parts) and parts[place + 1][2] == "-" and parts[place + 2][1]:
            if low <= parts[place + 2][1]:
                yield ord(low), ord(parts[place + 2][1])
            place += 2
        else:
            yield ord(low), ord(low)
        place += 1


def _between(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What is in none of the sorted ranges."""
    start = 1
    for low, high in ranges:
        if start < low:
            yield start, low - 1
        start = max(start, high + 1)
    if start <= _LAST:
        yield start, _LAST


def _without(character: str, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    code = ord(character)
    for low, high in ranges:
        if low <= code <= high:
            yield from ((a, b) for a, b in ((low, code - 1), (code + 1, high)) if a <= b)
        else:
            yield low, high
