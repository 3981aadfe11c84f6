"""Files of lines: CSV, JSON lines and text. The streams of an epoch divide a large file into ranges of bytes."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from rtrain.data import _block
from rtrain.data._arrow import _csv, _json
from rtrain.data._arrow._ranges import LEAST_BYTES, QuotedStarts, Range, Section, Start, line_start
from rtrain.data._block import Block
from rtrain.data._far._file import SequentialFile
from rtrain.data._formats._of_files import FirstRowsDecide, OfFiles
from rtrain.data._paths import Files
from rtrain.data._source import Group, piece_rows

_CHUNK = 1 << 20
_UTF8_MARK = b"\xef\xbb\xbf"


class InLines(OfFiles):
    """Files whose rows end with a newline. The streams of an epoch divide a large file into ranges of bytes."""

    _ranges: dict[Range, tuple[Group, tuple[int, int]]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_ranges": None}

    def part_of(self, place: int, part: int, parts: int) -> Range | None:
        large = (self.files.sizes[place] or 0) >= parts * LEAST_BYTES
        return Range(place, part, parts) if large and not self.is_compressed(place) and self.is_divisible(place) else None

    def is_divisible(self, file: int) -> bool:
        """Returns True if `row_start` finds where rows begin."""
        return True

    def row_start(self, file: int) -> Start:
        return line_start

    def group(self, place: Any) -> Group:
        return self._range(place)[0] if isinstance(place, Range) else super().group(place)

    def _range(self, place: Range) -> tuple[Group, tuple[int, int]]:
        """Returns the pieces of a range, and the range's bytes."""
        ranges = self._ranges = self._ranges or {}
        if place not in ranges:
            with self.random_file(place.file) as opened:
                start, stop = place.bytes_of(opened, self.files.sizes[place.file], self.row_start(place.file))
            ranges[place] = Group(None, stop - start), (start, stop)
        return ranges[place]

    def where(self, place: Any) -> str:
        return super().where(place.file if isinstance(place, Range) else place)

    def stream(self, place: Any) -> Any:
        if not isinstance(place, Range):
            return super().stream(place)
        start, stop = self._range(place)[1]
        if self.files.far:
            return SequentialFile(self.parts, self.where(place), stop, start)
        return Section(self.random_file(place.file), start, stop)

    def located(self, place: Any, error: Exception) -> Exception:
        """Returns the error of reading the whole file, whose line numbers begin at the file's first line."""
        try:
            for _ in self.blocks(place.file, 0) if isinstance(place, Range) else ():
                pass
        except (pa.ArrowException, OSError, ValueError) as of_file:
            return of_file
        return error


class Csv(InLines, FirstRowsDecide):
    hint = "name the columns by columns=, their types by convert_options=pyarrow.csv.ConvertOptions(column_types=...)"

    def __init__(self, files: Files, options: dict[str, Any], *, include_paths: bool) -> None:
        super().__init__("read_csv", files, include_paths=include_paths)
        self.options = options
        self._starts: dict[int, Start] = {}  # by file

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_starts": {}}

    def is_divisible(self, file: int) -> bool:
        """Returns False for a remote file with quotes. Finding row starts reads such a file from its beginning, once for each
        rank."""
        quote, _ = _csv.marks(self.options, self._separator(file))
        return _csv.is_divisible(self.options) and not (quote and self.files.far)

    def row_start(self, file: int) -> Start:
        quote, delimiter = _csv.marks(self.options, self._separator(file))
        if not quote:
            return line_start
        return self._starts.setdefault(file, QuotedStarts(quote, delimiter))

    def blocks(self, place: Any, piece: int) -> Iterator[Block]:
        separator, stream = self._separator(place), functools.partial(self.stream, place)
        if isinstance(place, Range):
            of_file = functools.partial(self.stream, place.file)
            tables = _csv.batches_of_range(self.options, separator, of_file, stream, has_header=place.part == 0)
        else:
            tables = _csv.batches(self.options, separator, stream)
        return _from(piece, map(_block.from_arrow, tables))

    def _separator(self, place: Any) -> str:
        name = self.where(place).lower()
        if self.is_compressed(place):
            name = posixpath.splitext(name)[0]
        return "\t" if name.endswith(".tsv") else ","


def _from(piece: int, blocks: Iterator[Block]) -> Iterator[Block]:
    """Cuts blocks into pieces, and yields those from number `piece` on."""
    number = 0
    for block in blocks:
        each = piece_rows(block.rows, block.nbytes)
        for start in range(0, block.rows, each):
            if number >= piece:
                yield block.slice(start, start + each)
            number += 1


class Lines(InLines):
    """Files of lines. `parsed` makes a block of some lines. A piece holds the lines of about a MiB."""

    def __init__(self, reader: str, files: Files, parsed: Callable[[bytes], Block], *, include_paths: bool) -> None:
        super().__init__(reader, files, include_paths=include_paths)
        self.parsed = parsed

    def blocks(self, place: Any, piece: int) -> Iterator[Block]:
        with self.stream(place) as stream:
            if not isinstance(place, Range):
                yield from _from(piece, self.parsed_lines(self.chunks(stream)))
                return
            with self.stream(place.file) as file:
                head = next(self.whole_lines(file), b"")
            mark = b"" if place.part else _UTF8_MARK
            yield from _from(piece, self.parsed_lines(self.whole_lines(stream, mark), head))

    def parsed_lines(self, chunks: Iterator[bytes], head: bytes = b"") -> Iterator[Block]:
        """Yields a block for each chunk. head: the first lines of the file that the chunks belong to."""
        line = 1
        for chunk in chunks:
            try:
                yield self.parsed(chunk)
            except UnicodeDecodeError as error:
                where = line + chunk[: error.start].count(b"\n")
                raise ValueError(f"line {where}: {error}; encoding= names the files' encoding") from error
            line += chunk.count(b"\n")

    def chunks(self, stream: Any) -> Iterator[bytes]:
        """Yields chunks of whole rows, about a MiB each, with one row in each line."""
        return self.whole_lines(stream)

    def whole_lines(self, stream: Any, mark: bytes = _UTF8_MARK) -> Iterator[bytes]:
        """Yields chunks of whole lines, about a MiB each, without the byte order mark."""
        ready, held = b"", list[bytes]()
        read = bytes(stream.read(_CHUNK)).removeprefix(mark)
        while read:
            before, newline, after = read.rpartition(b"\n")
            if newline:
                yield from [ready] if ready else []
                ready, held = b"".join([*held, before, newline]), []
            held.append(after)
            read = bytes(stream.read(_CHUNK))
        yield from [b"".join([ready, *held])] if ready or any(held) else []


class JsonLines(Lines, FirstRowsDecide):
    """Files with one object in each line. A file that is one list of objects is read as a whole."""

    hint = "name columns and types by parse_options=pyarrow.json.ParseOptions(explicit_schema=...)"

    @property
    def options(self) -> dict[str, Any]:
        return self.parsed.keywords["options"] if isinstance(self.parsed, functools.partial) else {}

    def is_divisible(self, file: int) -> bool:
        parse = self.options.get("parse_options")
        if parse is not None and parse.newlines_in_values:
            return False
        with self.stream(file) as stream:
            return not next(self.whole_lines(stream), b"").lstrip().startswith(b"[")

    def parsed_lines(self, chunks: Iterator[bytes], head: bytes = b"") -> Iterator[Block]:
        return map(_block.from_arrow, _json.tables(chunks, self.options, head))

    def chunks(self, stream: Any) -> Iterator[bytes]:
        chunks = self.whole_lines(stream)
        for number, chunk in enumerate(chunks):
            if number == 0 and chunk.lstrip().startswith(b"["):
                yield from _json.rows_of_list(b"".join([chunk, *chunks]), _CHUNK)
                return
            yield chunk


def parse_json(chunk: bytes, options: dict[str, Any]) -> Block:
    return _block.concat(map(_block.from_arrow, _json.tables([chunk], options)))


def parse_text(chunk: bytes, encoding: str, *, drop_empty_lines: bool) -> Block:
    lines = chunk.decode(encoding).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    return Block({"text": pa.array([line for line in lines if line or not drop_empty_lines], pa.string())})
