"""Reads CSV files with Arrow's reader, and prevents that it changes values.

Arrow takes the type of a column from the first MiB of a file. It reads 007 as 7, an integer of 20 digits as the nearest float,
and text that is not UTF-8 as bytes. If the first MiB of a column of numbers has such a value, this module reads the column as
text. A later such value is an error.
"""

from __future__ import annotations

import copy
import io
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from rtrain.data._arrow import _numbers

Open = Callable[[], Any]  # opens the file's stream

_BLOCK = 1 << 20
_LARGEST_BLOCK = 1 << 28  # bytes; a longer row means that a quote is not closed
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_ZERO_FIRST = r"^\s*[-+]?0[0-9xX]"
_LONG_INTEGER = r"^\s*[-+]?[0-9]{16,}\s*$"
_HINT = "ConvertOptions(column_types=...) sets a column's type"


def batches(given: dict[str, Any], separator: str, open_stream: Open) -> Iterator[Any]:
    """Yields the rows of a file as Arrow's record batches. ValueError names row and column of a value that cannot be read exactly.

    given: the user's options by their names in pyarrow.csv.
    """
    file = _File(given, separator, open_stream)
    try:
        yield from file.batches()
    except pa.ArrowInvalid as error:
        if "Empty CSV file" not in str(error) or open_stream().read(1):
            raise ValueError(file.located(error)) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{error}; ReadOptions(encoding=...) names the file's encoding") from error


def is_divisible(given: dict[str, Any]) -> bool:
    """Returns True if `batches_of_range` reads ranges of rows as `batches` reads the file."""
    read, parse = given.get("read_options") or csv.ReadOptions(), given.get("parse_options") or csv.ParseOptions()
    if read.skip_rows or read.skip_rows_after_names or parse.escape_char or parse.invalid_row_handler is not None:
        return False
    return _is_plain(read) and (bool(parse.double_quote) or not parse.quote_char)


def marks(given: dict[str, Any], separator: str) -> tuple[str, str]:
    """Returns the quote character, empty if values are not quoted, and the delimiter."""
    parse = given.get("parse_options") or csv.ParseOptions(delimiter=separator)
    return parse.quote_char or "", parse.delimiter


def batches_of_range(
    given: dict[str, Any], separator: str, open_file: Open, open_range: Open, *, has_header: bool
) -> Iterator[Any]:
    """Yields the rows of a range with the names and types that the whole file has. has_header: the range is the file's first one.

    ValueError counts rows from the beginning of the range.
    """
    head = _File(given, separator, open_file)
    for _ in head.batches():
        break
    file = _File(given, separator, open_range)
    file.take_columns(head, has_header=has_header)
    try:
        yield from file.batches()
    except pa.ArrowInvalid as error:
        if "Empty CSV file" not in str(error):
            raise ValueError(str(error)) from error


class _QuoteSeenError(Exception):
    """A quote was seen. The file is read again from its beginning, with newlines allowed between quotes."""


class _Watched(io.RawIOBase):
    """A stream that searches for values with a leading zero, and counts quotes, while Arrow reads it."""

    def __init__(self, stream: Any, delimiter: str, *, zeros: bool) -> None:
        self.zeros, self.quotes = zeros, 0
        self.stream, self.delimiter = stream, ord(delimiter)
        self._before = b"\n"
        self._held = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content: bytes = self.stream.read(size - len(self._held) if size >= 0 else None)
        content = self._held + content if self._held else content
        # Arrow drops a newline at the beginning of a read if the last read ended with a carriage return, also between quotes.
        self._held = b"\r" if len(content) > 1 and content.endswith(b"\r") else b""
        content = content[:-1] if self._held else content
        self.quotes += content.count(b'"')
        if not self.zeros:
            self.zeros = _numbers.has_zeros_first(self._before + (content or b"\n"), self.delimiter)
            self._before = (self._before + content)[-_numbers.CARRIED :]
        return content

    def close(self) -> None:
        if not self.closed:
            self.stream.close()
        super().close()


class _File:
    def __init__(self, given: dict[str, Any], separator: str, open_stream: Open) -> None:
        self.read = copy.copy(given.get("read_options")) or csv.ReadOptions(block_size=_BLOCK)
        self.parse = copy.copy(given.get("parse_options")) or csv.ParseOptions(delimiter=separator)
        self.has_own_options = "parse_options" in given
        self.convert = copy.copy(given.get("convert_options")) or csv.ConvertOptions()
        self.open_stream = open_stream
        self.set_by_user = set(self.convert.column_types)
        self.types: dict[str, Any] = {}  # the types of the first block
        self.main: _Watched | None = None  # the stream of the rows
        self.hides_zeros = not _is_plain(self.read) or _numbers.hides_zeros(self.parse.delimiter)

    def take_columns(self, head: _File, *, has_header: bool) -> None:
        """Sets names and types to those of the file's first rows, which `head` has read."""
        self.read.block_size = head.read.block_size
        self.types, self.parse, self.has_own_options = head.types, head.parse, True
        if has_header:
            return
        columns, head.convert.include_columns = head.convert.include_columns, []
        names = head._opened(head._watched(zeros=True)).schema.names
        head.convert.include_columns = columns
        self.read.column_names, self.read.autogenerate_column_names = names, False

    def batches(self) -> Iterator[Any]:
        given = 0
        while True:
            try:
                for batch, row in self._exact():
                    yield from [batch.slice(max(0, given - row))] if row + batch.num_rows > given else []
                    given = max(given, row + batch.num_rows)
                return
            except _QuoteSeenError:
                self.parse.newlines_in_values = True
            except pa.ArrowInvalid as error:
                if self._needs_newlines():
                    self.parse.newlines_in_values = True
                elif "straddling object" in str(error) and self.read.block_size < _LARGEST_BLOCK:
                    self.read.block_size *= 4  # A row is longer than a block.
                else:
                    raise

    def _exact(self) -> Iterator[tuple[Any, int]]:
        """Yields batches and the numbers of their first rows."""
        watched = self.main = self._watched(zeros=self.hides_zeros)
        reader = self._opened(watched)
        if self._keeps_empty_lines(reader.schema.names):
            watched = self.main = self._watched(zeros=self.hides_zeros)
            reader = self._opened(watched)
        texts = _Texts(self)
        first = next((batch for batch in self._whole(reader) if batch.num_rows), None)
        if first is None:
            return
        decides = not self.types
        if decides:
            self._no_bytes(first)
            wrong = texts.changed(first, 0, watched)
            self.types = {field.name: pa.string() if field.name in wrong else field.type for field in first.schema}
            if wrong:
                watched = self.main = self._watched(zeros=True)
                reader, first = self._opened(watched), None
        row, last = 0, None
        for batch in itertools.chain([] if first is None else [first], self._whole(reader)):
            for name, (place, value, why) in ({} if decides and row == 0 else texts.changed(batch, row, watched)).items():
                raise ValueError(
                    f"row {self._line(row + place)}, column {name!r}: {value!r} {why}; {_HINT}, as to pyarrow.string()"
                )
            yield batch, row
            row, last = row + batch.num_rows, batch if batch.num_rows else last
        if last is not None and watched.quotes % 2 and self.parse.quote_char == '"':
            self._closed(last.slice(last.num_rows - 1).to_pylist()[0], row)

    def _needs_newlines(self) -> bool:
        """Returns True if a block that was read may have ended between quotes. Arrow finds such places with an option that
        takes time, so the option is set when the first quote is seen. Earlier blocks end at the same places with and without
        it."""
        has_quotes = self.main is not None and self.main.quotes > 0
        return has_quotes and bool(self.parse.quote_char) and not self.parse.newlines_in_values

    def _whole(self, reader: Any) -> Iterator[Any]:
        for batch in reader:
            if self._needs_newlines():
                raise _QuoteSeenError
            yield batch

    def _keeps_empty_lines(self, names: list[str]) -> bool:
        """Returns True if the file must be opened again: an empty line of a file with one column is a row, but Arrow leaves it
        out."""
        if len(names) != 1 or self.has_own_options or not self.parse.ignore_empty_lines:
            return False
        columns = self.convert.include_columns
        self.parse.ignore_empty_lines, self.convert.include_columns = False, []
        try:
            alone = self._opened(self._watched(zeros=True)).schema.names
        finally:
            self.convert.include_columns = columns
        self.parse.ignore_empty_lines = len(alone) != 1 or alone != names
        return not self.parse.ignore_empty_lines

    def _watched(self, *, zeros: bool) -> _Watched:
        return _Watched(self.open_stream(), self.parse.delimiter, zeros=zeros)

    def _opened(self, source: Any, *, only: list[str] | None = None, threads: bool = True) -> Any:
        """Returns Arrow's reader. only: the columns that are read, all as texts."""
        convert, read = copy.copy(self.convert), copy.copy(self.read)
        convert.column_types = {**self.types, **dict(convert.column_types), **dict.fromkeys(only or (), pa.string())}
        if only is not None:
            convert.include_columns = only
        read.use_threads = read.use_threads and threads
        # Arrow reads ahead in its own thread, which may outlive this generator. Arrow closes the stream when that thread ends. If
        # the stream were closed here, the thread could read from another file that reuses the descriptor.
        return csv.open_csv(pa.PythonFile(source, "r"), read_options=read, parse_options=self.parse, convert_options=convert)

    def _line(self, place: int) -> int:
        """Returns the number of a row as Arrow counts rows: the header is row 1."""
        has_header = not self.read.column_names and not self.read.autogenerate_column_names
        return place + 1 + int(self.read.skip_rows) + int(has_header)

    def _no_bytes(self, first: Any) -> None:
        for field, column in zip(first.schema, first.columns, strict=True):
            if pa.types.is_binary(field.type) and field.name not in self.set_by_user:
                place = next(place for place, value in enumerate(column.to_pylist()) if value is not None and not _is_text(value))
                raise ValueError(
                    f"row {self._line(place)}, column {field.name!r}: {column[place].as_py()!r} is no UTF-8; ReadOptions(encoding='latin-1') "
                    "or another encoding reads it"
                )

    def _closed(self, values: dict[str, Any], row: int) -> None:
        for name, value in values.items():
            if isinstance(value, str) and "\n" in value:
                raise ValueError(
                    f"row {self._line(row - 1)}, column {name!r}: a quote is opened and not closed, so that the lines behind it are one "
                    "value; ParseOptions(quote_char=False) reads quotes as letters"
                )

    def located(self, error: Exception) -> str:
        """Returns the error's message with row and column. Arrow reports rows only if it uses one thread."""
        if self.open_stream().read(2) in _UTF16_MARKS:
            return f"the file is UTF-16; ReadOptions(encoding='utf-16') reads it ({error})"
        message, names = str(error), list(self.types)
        try:
            reader = self._opened(self._watched(zeros=True), threads=False)
            names = reader.schema.names
            for _ in reader:
                pass
        except pa.ArrowInvalid as again:
            message = str(again)
        number = re.search(r"In CSV column #(\d+): ", message)
        if number is None:
            return message
        known = int(number[1]) < len(names)
        named = message.replace(number[0], f"In column {names[int(number[1])]!r}: ") if known else message
        return f"{named}. Its type is that of the first MiB; {_HINT}"


class _Texts:
    """The text of number columns, read beside the numbers while these may have changed values."""

    def __init__(self, file: _File) -> None:
        self.file = file
        self.names: list[str] = []
        self.reader: Iterator[Any] = iter(())
        self.held: Any = None
        self.place = 0  # the number of the first row in `held`

    def changed(self, batch: Any, row: int, watched: _Watched) -> dict[str, tuple[int, str, str]]:
        """Returns each column with a number that differs from its text, with the place in the batch, the text and the
        difference."""
        numbers = [name for name in dict.fromkeys(batch.schema.names) if self._is_number(batch, name)]
        suspects = [name for name in numbers if watched.zeros or _numbers.has_large_floats(batch.column(name))]
        if not suspects or not batch.num_rows:
            return {}
        texts = self._texts(numbers, row, batch.num_rows)
        differences = {name: _first_difference(batch.column(name), texts.column(name)) for name in suspects}
        return {name: difference for name, difference in differences.items() if difference is not None}

    def _is_number(self, batch: Any, name: str) -> bool:
        kind = batch.schema.types[batch.schema.names.index(name)]
        return name not in self.file.set_by_user and kind in (pa.int64(), pa.float64()) and batch.schema.names.count(name) == 1

    def _texts(self, names: list[str], row: int, rows: int) -> Any:
        if names != self.names:
            self.names, self.held, self.place = names, None, 0
            self.reader = iter(self.file._opened(self.file._watched(zeros=True), only=names))
        parts = [] if self.held is None else [self.held]
        while self.place + sum(len(part) for part in parts) < row + rows:
            part = pa.Table.from_batches([next(self.reader)])
            if parts or self.place + len(part) > row:
                parts.append(part)
            else:
                self.place += len(part)
        whole = pa.concat_tables(parts)
        self.held, wanted = whole.slice(row - self.place + rows), whole.slice(row - self.place, rows)
        self.place = row + rows
        return wanted


def _is_plain(read: Any) -> bool:
    """Returns True if ASCII characters are single bytes in the file's encoding."""
    return (read.encoding or "utf8").lower().replace("-", "") in ("utf8", "ascii", "latin1", "cp1252", "iso88591")


def _first_difference(column: Any, texts: Any) -> tuple[int, str, str] | None:
    zeros = pc.match_substring_regex(texts, _ZERO_FIRST).fill_null(False).to_numpy()  # noqa: FBT003
    for place in zeros.nonzero()[0][:1]:
        return int(place), texts[int(place)].as_py(), "has a zero in front, which a number has not"
    if column.type != pa.float64():
        return None
    for place in pc.match_substring_regex(texts, _LONG_INTEGER).fill_null(False).to_numpy().nonzero()[0]:  # noqa: FBT003
        text = texts[int(place)].as_py()
        if int(float(text)) != int(text):
            return int(place), text, "is no float exactly"
    for place in pc.is_inf(column).fill_null(False).to_numpy(zero_copy_only=False).nonzero()[0]:  # noqa: FBT003
        text = texts[int(place)].as_py()
        if "inf" not in text.lower():
            return int(place), text, "is larger than every float"
    return None


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
