"""Rows of the table: expected value, observed value, and verdict. A group appends each finished row to a file, so that the
rows of a killed group remain.
"""

import contextlib
import dataclasses
import json
import traceback

OK, FAILED, SKIPPED = "ok", "FAILED", "skipped"
_WIDEST = 400  # maximum characters of a cell


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
    """The check is not possible here. The text says what it needs."""


class Wrong(Exception):
    """The observed value is not the expected one. `seen` is for the row's cell."""

    def __init__(self, reason, seen=""):
        super().__init__(reason)
        self.seen = seen


class Rows:
    """Writes the rows of one group to `file`."""

    def __init__(self, group, file):
        self.group = group
        self.file = file

    def add(self, row):
        with open(self.file, "a") as into:
            into.write(json.dumps(dataclasses.asdict(row)) + "\n")

    @contextlib.contextmanager
    def row(self, name, expected):
        """Makes the row `name`. The block gets a list for the observed values, and raises Wrong or Skip if the row is not
        ok. Any other exception makes a FAILED row too, and the group continues.
        """
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
    """Returns the first and the last line: what failed, and why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ... ".join(lines[:1] + lines[1:][-1:])


def read(file):
    """Returns the rows that a group has written, without an incomplete last line."""
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
    """Returns the rows as a Markdown table in the format of docs/benchmarks.md."""
    lines = ["| group | row | expected | seen | verdict |", "|---|---|---|---|---|"]
    for row in rows:
        cells = (row.group, row.name, row.expected, row.seen, row.shown_verdict())
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(lines)


def counts(rows):
    return {verdict: sum(1 for row in rows if row.verdict == verdict) for verdict in (OK, FAILED, SKIPPED)}
