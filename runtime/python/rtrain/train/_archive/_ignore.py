"""Finds the files of a working directory that are not packed, by .gitignore and by .rtrainignore, which has
precedence.

The rules are read as git reads them, byte by byte. storage/job_spec/archive/ignore.cpp has the same matcher for
`rtrain submit`. tests/ignore_cases.json runs against both and against git. docs/decisions/0035 says why no library
does this.
"""

from __future__ import annotations

import enum
import os
import pathlib
import stat
from collections.abc import Iterable
from dataclasses import dataclass

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def _bits(characters: Iterable[int]) -> int:
    """Returns a set of bytes as an integer: bit n is set if byte n is in the set."""
    return sum(1 << byte for byte in set(characters))


_ALL = (1 << 256) - 1
_SLASH = _bits(b"/")
_DIGIT, _LOWER, _UPPER = _bits(b"0123456789"), _bits(range(ord("a"), ord("z") + 1)), _bits(range(ord("A"), ord("Z") + 1))
_PRINT = _bits(range(0x20, 0x7F))
_ALNUM = _DIGIT | _LOWER | _UPPER
_CLASSES = {  # character classes as git defines them: ASCII only, with four blank characters
    b"alnum": _ALNUM,
    b"alpha": _LOWER | _UPPER,
    b"blank": _bits(b" \t"),
    b"cntrl": _bits([*range(1, 0x20), 0x7F]),
    b"digit": _DIGIT,
    b"graph": _PRINT & ~_bits(b" "),
    b"lower": _LOWER,
    b"print": _PRINT,
    b"punct": _PRINT & ~_bits(b" ") & ~_ALNUM,
    b"space": _bits(b" \t\n\r"),
    b"upper": _UPPER,
    b"xdigit": _bits(b"0123456789abcdefABCDEF"),
}


class _Kind(enum.Enum):
    ONE = enum.auto()  # matches one byte of the set
    REPEAT = enum.auto()  # matches any number of bytes of the set
    OPTIONAL = enum.auto()  # the next two tokens match together, or both are skipped


@dataclass(frozen=True)
class _Token:
    kind: _Kind
    fits: int = 0


class _Glob:
    """A pattern as a list of tokens. State N means that the first N tokens have been matched. All possible states
    advance together, so that the time is at most proportional to the pattern's length times the name's length.
    """

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._last = 1 << len(tokens)
        self._repeats = _bits(at for at, token in enumerate(tokens) if token.kind is _Kind.REPEAT)
        self._optionals = _bits(at for at, token in enumerate(tokens) if token.kind is _Kind.OPTIONAL)
        self._start = self._skipped(1)
        self._steps: dict[int, tuple[int, int]] = {}
        self._head = _literals(tokens)
        # From here on, every matching name has at least one byte for each token.
        needed = self._optionals.bit_length() + 2 if self._optionals else 0
        self._tail = _literals(tokens[needed:][::-1])[::-1]

    def matches(self, name: bytes) -> bool:
        if not (name.startswith(self._head) and name.endswith(self._tail)):
            return False
        states = self._start
        for byte in name:
            forward, stay = self._steps.get(byte) or self._step(byte)
            states = self._skipped((states & forward) << 1 | states & stay)
            if not states:
                return False
        return bool(states & self._last)

    def _step(self, byte: int) -> tuple[int, int]:
        """Returns the states that advance with the byte, and the states that may remain with it."""
        fitting = _bits(at for at, token in enumerate(self._tokens) if token.fits >> byte & 1)
        self._steps[byte] = fitting & ~self._repeats, fitting & self._repeats
        return self._steps[byte]

    def _skipped(self, states: int) -> int:
        """Adds the states that can be reached without another byte."""
        while True:
            optional = states & self._optionals
            more = states | (states & self._repeats | optional) << 1 | optional << 3
            if more == states:
                return states
            states = more


def _literals(tokens: list[_Token]) -> bytes:
    """Returns the literal bytes with which every matching name begins."""
    literal = bytearray()
    for token in tokens:
        if token.kind is not _Kind.ONE or token.fits & (token.fits - 1):
            break
        literal.append(token.fits.bit_length() - 1)
    return bytes(literal)


def _glob(pattern: bytes, *, bound: bool) -> _Glob | None:
    """Reads a glob. Returns None if it matches no name. bound: the pattern has a slash, so `**` may match folders."""
    tokens: list[_Token] = []
    at, plain = 0, True  # plain: all characters so far are literal
    while at < len(pattern):
        sign = pattern[at : at + 1]
        if sign == b"*":
            stars, at = _stars(pattern, at, bound=bound, plain=plain)
            tokens += stars
        elif sign == b"[":
            bytes_of_set, at = _read_set(pattern, at + 1)
            if not bytes_of_set:
                return None
            tokens.append(_Token(_Kind.ONE, bytes_of_set))
        elif sign == b"?":
            tokens.append(_Token(_Kind.ONE, _ALL & ~_SLASH))
            at += 1
        else:
            at += sign == b"\\"
            if at == len(pattern):
                return None
            tokens.append(_Token(_Kind.ONE, 1 << pattern[at]))
            at += 1
        plain = plain and sign not in b"*[?\\"
    return _Glob(tokens)


def _stars(pattern: bytes, at: int, *, bound: bool, plain: bool) -> tuple[list[_Token], int]:
    """Reads the stars at `at`. Returns their tokens and the position behind them. Two or more stars match folders if
    a slash, or an end of the pattern, is on both sides. git cuts off the literal characters at the begin of a
    pattern, so stars right behind them match folders too: a**/b matches ax/b.
    """
    end = at
    while pattern[end : end + 1] == b"*":
        end += 1
    rest = pattern[end:]
    after_slash = plain or pattern[at - 1 : at] == b"/"
    if not bound or end - at == 1 or not after_slash or (rest and not rest.startswith((b"/", b"\\/"))):
        return [_Token(_Kind.REPEAT, _ALL & ~_SLASH)], end
    if rest.startswith(b"/"):
        return [_Token(_Kind.OPTIONAL), _Token(_Kind.REPEAT, _ALL), _Token(_Kind.ONE, _SLASH)], end + 1
    return [_Token(_Kind.REPEAT, _ALL)], end


def _read_set(pattern: bytes, at: int) -> tuple[int, int]:
    """Reads a set such as [a-z] whose opening bracket is just before `at`. Returns the bytes in the set and the
    position behind it. The bytes are none if the set has no end or contains an unknown class.
    """
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    fits, low, first = 0, -1, at
    while at < len(pattern) and (at == first or pattern[at] != ord("]")):
        if pattern.startswith(b"[:", at):
            end = pattern.find(b"]", at + 2)
            if end == -1:
                return 0, at
            if end > at + 2 and pattern[end - 1] == ord(":"):
                known = _CLASSES.get(pattern[at + 2 : end - 1], 0)
                if not known:
                    return 0, at
                fits, low, at = fits | known, -1, end + 1
                continue
        is_range = low >= 0 and pattern[at] == ord("-") and pattern[at + 1 : at + 2] not in (b"", b"]")
        at += is_range
        at += pattern[at] == ord("\\")
        if at == len(pattern):
            return 0, at
        fits |= _bits(range(low if is_range else pattern[at], pattern[at] + 1))
        low = -1 if is_range else pattern[at]
        at += 1
    if at >= len(pattern):
        return 0, at
    return (_ALL & ~fits if negated else fits) & ~_SLASH, at + 1


@dataclass(frozen=True)
class _Rule:
    glob: _Glob
    keeps: bool  # the rule began with "!": it includes files again
    named: bool  # the rule has no wildcard
    directories_only: bool
    bound: bool  # True: the rule matches paths relative to its folder; False: it matches names at any depth

    def hits(self, below: bytes, name: bytes, *, directory: bool) -> bool:
        return (directory or not self.directories_only) and self.glob.matches(below if self.bound else name)


def _rules(text: bytes) -> list[_Rule]:
    lines = text.removeprefix(_BYTE_ORDER_MARK).split(b"\n")
    return [rule for line in lines if (rule := _rule(line))]


def _rule(line: bytes) -> _Rule | None:
    """Reads a line as a rule. Returns None for a comment, and for a rule that matches nothing."""
    pattern = _without_blanks(line.removesuffix(b"\r").split(b"\0", maxsplit=1)[0])
    if pattern.startswith(b"#"):
        return None
    keeps = pattern.startswith(b"!")
    pattern = pattern[keeps:]
    directories_only = pattern.endswith(b"/")
    pattern = pattern.removesuffix(b"/")
    bound = b"/" in pattern
    glob = _glob(pattern.removeprefix(b"/"), bound=bound) if pattern else None
    named = not any(sign in pattern for sign in b"*[?\\")
    return _Rule(glob, keeps, named, directories_only, bound) if glob else None


def _without_blanks(line: bytes) -> bytes:
    """Returns the line without its trailing spaces. A space that follows a backslash stays."""
    at, end = 0, 0
    while at < len(line):
        blank = line[at] == ord(" ")
        at += 1 + (line[at] == ord("\\"))
        if not blank:
            end = at
    return line[:end]


class Rules:
    """The rules of all ignore files. For a file, the last rule that matches it decides. The rules of a folder hold for
    everything below it. Rules of .rtrainignore come after all rules of .gitignore. A file that the `first` rules leave
    out is included again only by a rule that names it without a wildcard: `!*/` does not include .git.
    """

    def __init__(self, first: Iterable[str]) -> None:
        self._first = _rules("\n".join(first).encode())
        # pairs: the folder in which the rules hold, with a slash at its end, and the rules
        self._git: list[tuple[bytes, list[_Rule]]] = []
        self._own: list[tuple[bytes, list[_Rule]]] = []

    def read(self, folder: pathlib.Path, inside: pathlib.Path) -> None:
        """Adds the rules of `folder`, whose path from the top is `inside`. A file that cannot be read has no rules."""
        base = b"" if inside == pathlib.Path() else os.fsencode(inside) + b"/"
        for rules, name in ((self._git, ".gitignore"), (self._own, ".rtrainignore")):
            if file_rules := _rules(_content(folder / name)):
                rules.append((base, file_rules))

    def ignored(self, inside: pathlib.Path, *, directory: bool) -> bool:
        """Returns whether the path, relative to the top, is left out. The caller must check folders before their
        contents, since no rule includes a file again whose folder is left out.
        """
        path = os.fsencode(inside)
        name = path.rpartition(b"/")[2]
        for base, rules in (*reversed(self._own), *reversed(self._git)):
            if path.startswith(base):
                below = path[len(base) :]
                for rule in reversed(rules):
                    if rule.hits(below, name, directory=directory):
                        return not rule.keeps or (not rule.named and self._at_first(path, name, directory=directory))
        return self._at_first(path, name, directory=directory)

    def _at_first(self, path: bytes, name: bytes, *, directory: bool) -> bool:
        return next((not rule.keeps for rule in reversed(self._first) if rule.hits(path, name, directory=directory)), False)


def _content(file: pathlib.Path) -> bytes:
    """Returns the file's bytes. Returns no bytes if it is not a regular file, since reading a pipe could block for
    ever.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        with os.fdopen(descriptor, "rb", closefd=False) as opened:
            return opened.read()
    except OSError:
        return b""
    finally:
        os.close(descriptor)
