"""Rows of the table: what was expected, what was seen, and the verdict. A group writes each of its rows into a file as soon as
it has one, so that a group which is ended keeps what it had."""

import contextlib
import dataclasses
import json
import traceback

OK, FAILED, SKIPPED = "ok", "FAILED", "skipped"
_WIDEST = 400  # characters of a cell


@dataclasses.dataclass(frozen=True)
class Row:
    group: str
    name: str
    expected: str
    seen: str
    verdict: str  # OK, FAILED or SKIPPED
    reason: str = ""

    def shown_verdict(self):
        return f"{self.verdict}: {self.reason}" if self.reason else self.verdict


class Skip(Exception):
    """A row cannot be had here; the text says what it needs."""


class Wrong(Exception):
    """The observed value is not the expected one. `seen` is for the row's cell."""

    def __init__(self, reason, seen=""):
        super().__init__(reason)
        self.seen = seen


class Rows:
    """The rows of one group, on their way into `file`."""

    def __init__(self, group, file):
        self.group = group
        self.file = file

    def add(self, row):
        with open(self.file, "a") as into:
            into.write(json.dumps(dataclasses.asdict(row)) + "\n")

    @contextlib.contextmanager
    def row(self, name, expected):
        """A block that makes the row `name`: it fills the list that it gets with what was seen, and raises Wrong or Skip where the row
        is not ok. Whatever else it raises is a FAILED row too, and the next one has its turn."""
        seen = []
        verdict, reason = OK, ""
        try:
            yield seen
        except Skip as skip:
            verdict, reason = SKIPPED, str(skip)
        except Wrong as wrong:
            verdict, reason = FAILED, str(wrong)
            seen.append(wrong.seen)
        except Exception as error:
            traceback.print_exc()
            verdict, reason = FAILED, f"{type(error).__name__}: {_shortened(str(error))}"
        shown = ", ".join(text for text in seen if text)
        if verdict == OK and not shown:
            verdict, reason = FAILED, "the row saw nothing"
        self.add(Row(self.group, name, expected, shown, verdict, reason))


def _shortened(text):
    """The first and the last line: what failed, and why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ... ".join(lines[:1] + lines[1:][-1:])


def read(file):
    """The rows that a group has written; a line that was cut off by its end does not count."""
    rows = []
    with contextlib.suppress(FileNotFoundError), open(file) as lines:
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):
                rows.append(Row(**json.loads(line)))
    return rows


def _cell(text):
    text = " ".join(text.split()).replace("|", "/")
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def table(rows):
    """The rows as a Markdown table, as docs/benchmarks.md keeps it."""
    lines = ["| group | row | expected | seen | verdict |", "|---|---|---|---|---|"]
    for row in rows:
        cells = (row.group, row.name, row.expected, row.seen, row.shown_verdict())
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(lines)


def counts(rows):
    return {verdict: sum(1 for row in rows if row.verdict == verdict) for verdict in (OK, FAILED, SKIPPED)}
