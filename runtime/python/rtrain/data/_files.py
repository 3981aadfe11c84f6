"""Sources that are files. A Parquet file's groups are its row groups; of other files each is one group, read from its beginning."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv, json as arrow_json, parquet

from rtrain.data import _block
from rtrain.data._arrow import _decoded
from rtrain.data._block import Block
from rtrain.data._paths import Files
from rtrain.data._plan import cut
from rtrain.data._source import Group, Source, piece_rows

_CHUNK = 1 << 20
_FOOTER_THREADS = 8
_SMALL_ROWS = 1024  # a piece of so many rows has none that is large
# Pages that have a checksum are compared with it. Arrow's reader in Python learned that in release 15.
_VERIFIED = {"page_checksum_verification": True} if int(pa.__version__.partition(".")[0]) >= 15 else {}


class OfFiles(Source):
    """What is known of the files' rows is forgotten when the plan travels: where it is read next, they may be others."""

    def __init__(self, reader: str, files: Files, *, include_paths: bool = False) -> None:
        self.name = f"{reader}({files.says()})"
        self.reader, self.files, self.include_paths = reader, files, include_paths
        self._groups: list[Group] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_groups": None}

    def groups(self) -> Sequence[Group]:
        if self._groups is None:
            self._groups = self.list_groups()
        return self._groups

    def list_groups(self) -> list[Group]:
        return [Group(None, size) for size in self.files.sizes]

    def where(self, place: int) -> str:
        return self.files.paths[place]

    def open(self, place: int, piece: int) -> Iterator[Block]:
        path = self.where(place)
        blocks = self.blocks(place, piece)
        while True:
            try:
                block = next(blocks, None)
            except (pa.ArrowException, OSError, ValueError) as error:
                kind = OSError if isinstance(error, OSError) else ValueError
                raise kind(f"{self.reader}: {path}: {error}") from error
            if block is None:
                return
            yield self.with_path(block, path)

    def with_path(self, block: Block, path: str) -> Block:
        if not self.include_paths:
            return block
        return Block({**block.columns, "path": pa.array([path] * block.rows)})

    def blocks(self, place: int, piece: int) -> Iterator[Block]:
        """The file's, from piece `piece` on."""
        raise NotImplementedError


class Parquet(OfFiles):
    def __init__(self, files: Files, columns: list[str] | None, *, include_paths: bool) -> None:
        super().__init__("read_parquet", files, include_paths=include_paths)
        self.columns = columns
        self._footers: list[Any] = []
        self._units: list[tuple[int, int, int]] = []  # file, row group, rows of a piece

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_footers": [], "_units": []}

    def footers(self) -> list[Any]:
        if not self._footers:
            with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
                self._footers = list(pool.map(self._footer, range(len(self.files.paths))))
        return self._footers

    def list_groups(self) -> list[Group]:
        self.footers()
        with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
            pieces = list(pool.map(self._pieces, range(len(self.files.paths))))
        self._units, groups = [], []
        for file, of_groups in enumerate(pieces):
            for number, (each, nbytes) in enumerate(of_groups):
                self._units.append((file, number, each))
                groups.append(Group(cut(self._footers[file].row_group(number).num_rows, each), nbytes))
        return groups

    def _footer(self, file: int) -> Any:
        path = self.files.paths[file]
        try:
            with self.files.system.open_input_file(path) as opened:
                return parquet.ParquetFile(opened).metadata
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"read_parquet: {path}: {error}") from error

    def _pieces(self, file: int) -> list[tuple[int, int]]:
        """Returns the rows of a piece and the decoded bytes of each row group of a file."""
        pieces: list[tuple[int, int]] = []
        with contextlib.ExitStack() as stack:

            def reader(dictionaries: list[str]) -> Any:
                opened = stack.enter_context(self.files.system.open_input_file(self.files.paths[file]))
                return self._reader(opened, file, dictionaries)

            try:
                pieces.extend(_decoded.pieces_of(self._footers[file], self.columns, reader))
            except (pa.ArrowException, OSError) as error:
                failure = self._failure(file, len(pieces), error)
                raise type(failure)(f"read_parquet: {self.files.paths[file]}: {failure}") from error
        return pieces

    def _reader(self, opened: Any, file: int, dictionaries: list[str] | None = None) -> Any:
        return parquet.ParquetFile(
            opened, metadata=self._footers[file], buffer_size=_CHUNK, read_dictionary=dictionaries, **_VERIFIED
        )

    def schema(self) -> Any:
        schema = self.footers()[0].schema.to_arrow_schema()
        if self.columns is None:
            return schema
        missing = [name for name in self.columns if name not in schema.names]
        if missing:
            raise KeyError(f"read_parquet: {self.files.paths[0]} has no column {missing[0]!r}; it has: {', '.join(schema.names)}")
        return pa.schema([schema.field(name) for name in self.columns])

    def names(self) -> list[str]:
        return [*self.schema().names, *(["path"] if self.include_paths else [])]

    def types(self) -> list[Any]:
        return [*self.schema().types, *([pa.string()] if self.include_paths else [])]

    def where(self, place: int) -> str:
        self.groups()
        return self.files.paths[self._units[place][0]]

    def blocks(self, place: int, piece: int) -> Iterator[Block]:
        self.groups()
        file, number, each = self._units[place]
        with self.files.system.open_input_file(self.files.paths[file]) as opened:
            at_once = 2 * each if each >= _SMALL_ROWS else each  # Arrow's reader is quicker in longer steps
            batches = self._reader(opened, file).iter_batches(batch_size=at_once, row_groups=[number], columns=self.columns)
            for skipped, block in enumerate(_exactly(each, map(_block.from_arrow, self._verified(file, number, batches)))):
                if skipped >= piece:
                    yield block

    def _verified(self, file: int, number: int, batches: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from batches
        except (pa.ArrowException, OSError) as error:
            raise self._failure(file, number, error) from error

    def _failure(self, file: int, number: int, error: Exception) -> Exception:
        """Returns an error that names the row group, and the column whose bytes have changed since they were written."""
        kind = OSError if isinstance(error, OSError) else ValueError
        if "CRC" not in str(error):
            return kind(f"row group {number}: {error}")
        damaged = " and ".join(map(repr, self._damaged(file, number))) or "unknown"
        return kind(
            f"row group {number}, column {damaged}: the checksum of a page differs from its bytes, so the file was damaged after it "
            f"was written. Copy it again from where it came from, or write it anew ({error})"
        )

    def _damaged(self, file: int, number: int) -> list[str]:
        """Returns the columns of a row group that cannot be read."""
        damaged = []
        with self.files.system.open_input_file(self.files.paths[file]) as opened:
            for name in self.columns or self._footers[file].schema.to_arrow_schema().names:
                try:
                    for _ in self._reader(opened, file).iter_batches(batch_size=1024, row_groups=[number], columns=[name]):
                        pass
                except (pa.ArrowException, OSError):
                    damaged.append(name)
        return damaged


def _exactly(each: int, blocks: Iterator[Block]) -> Iterator[Block]:
    """Blocks of `each` rows; the last has what is over."""
    held: list[Block] = []
    rows = 0
    for block in blocks:
        held.append(block)
        rows += block.rows
        while rows >= each:
            combined = _block.concat(held)
            yield combined.slice(0, each)
            held, rows = [combined.slice(each, combined.rows)], combined.rows - each
    if rows:
        yield _block.concat(held)


class Csv(OfFiles):
    def __init__(self, files: Files, options: dict[str, Any], *, include_paths: bool) -> None:
        super().__init__("read_csv", files, include_paths=include_paths)
        self.options = options

    def blocks(self, place: int, piece: int) -> Iterator[Block]:
        if self.files.sizes[place] == 0:
            return
        # Arrow reads ahead in a thread of its own, which outlives this generator where a caller wants the first rows only. The stream
        # is closed when that thread lets go of it: closed here, the thread would read from the file that gets the same descriptor next.
        stream = self.files.system.open_input_stream(self.where(place), compression="detect")
        for number, batch in enumerate(batch for batch in arrow_csv.open_csv(stream, **self.options) if batch.num_rows):
            if number >= piece:
                yield _block.from_arrow(batch)


class Lines(OfFiles):
    """Files of lines: `parsed` makes a block of some of them. The pieces are what lies in a MiB."""

    def __init__(self, reader: str, files: Files, parsed: Callable[[bytes], Block], *, include_paths: bool) -> None:
        super().__init__(reader, files, include_paths=include_paths)
        self.parsed = parsed

    def blocks(self, place: int, piece: int) -> Iterator[Block]:
        number = 0
        with self.files.system.open_input_stream(self.where(place), compression="detect") as stream:
            for chunk in self.chunks(stream):
                block = self.parsed(chunk)
                if block.rows:
                    if number >= piece:
                        yield block
                    number += 1

    def chunks(self, stream: Any) -> Iterator[bytes]:
        held = b""
        while read := stream.read(_CHUNK):
            before, newline, after = bytes(read).rpartition(b"\n")
            if newline:
                yield held + before + b"\n"
                held = after
            else:
                held += after
        if held.strip():
            yield held


class JsonLines(Lines):
    """One object in each line; a file that is one list of objects is read whole."""

    def chunks(self, stream: Any) -> Iterator[bytes]:
        chunks = super().chunks(stream)
        for number, chunk in enumerate(chunks):
            if number == 0 and chunk.lstrip().startswith(b"["):
                whole = json.loads(b"".join([chunk, *chunks]))
                yield b"\n".join(json.dumps(row).encode() for row in whole)
                return
            yield chunk


def parse_json(chunk: bytes, options: dict[str, Any]) -> Block:
    return _block.from_arrow(arrow_json.read_json(io.BytesIO(chunk), **options)) if chunk.strip() else Block({})


def parse_text(chunk: bytes, encoding: str, *, drop_empty_lines: bool) -> Block:
    lines = chunk.decode(encoding).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    return Block({"text": pa.array([line for line in lines if line or not drop_empty_lines], pa.string())})


class Npy(OfFiles):
    """Arrays saved by `numpy.save`; local files are mapped, not read whole."""

    def __init__(self, files: Files, *, include_paths: bool) -> None:
        super().__init__("read_numpy", files, include_paths=include_paths)

    def names(self) -> list[str]:
        return ["data", *(["path"] if self.include_paths else [])]

    def list_groups(self) -> list[Group]:
        return [
            Group(cut(len(array), self._each(array)), array.nbytes) for array in map(self._array, range(len(self.files.paths)))
        ]

    def _each(self, array: Any) -> int:
        return piece_rows(len(array), array.nbytes)

    def _array(self, place: int) -> Any:
        path = self.where(place)
        try:
            if self.files.local:
                return np.load(path, mmap_mode="r")
            with self.files.system.open_input_file(path) as opened:
                return np.load(io.BytesIO(opened.read()))
        except ValueError as error:
            raise ValueError(f"read_numpy: {path}: {error}") from error

    def blocks(self, place: int, piece: int) -> Iterator[Block]:
        array = self._array(place)
        each = self._each(array)
        for start in range(piece * each, len(array), each):
            yield Block({"data": np.array(array[start : start + each])})


class WholeFiles(OfFiles):
    """A row for each file. Each group is one piece: some files that are small together."""

    def __init__(
        self, reader: str, files: Files, row: Callable[[bytes], dict[str, Any]], most: int, *, include_paths: bool
    ) -> None:
        super().__init__(reader, files, include_paths=include_paths)
        self.row, self.most = row, most
        self._parts: list[tuple[int, int]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_parts": []}

    def list_groups(self) -> list[Group]:
        self._parts, start, nbytes = [], 0, 0
        for place, size in enumerate(self.files.sizes):
            if place > start and (place - start >= self.most or nbytes + size > 4 << 20):
                self._parts.append((start, place))
                start, nbytes = place, 0
            nbytes += size
        self._parts.append((start, len(self.files.paths)))
        return [Group([stop - first], sum(self.files.sizes[first:stop])) for first, stop in self._parts]

    def where(self, place: int) -> str:
        self.groups()
        return self.files.paths[self._parts[place][0]]

    def open(self, place: int, piece: int) -> Iterator[Block]:
        self.groups()
        if piece > 0:
            return
        rows = []
        for path in self.files.paths[slice(*self._parts[place])]:
            try:
                with self.files.system.open_input_file(path) as opened:
                    row = self.row(opened.read())
            except (OSError, ValueError) as error:
                raise ValueError(f"{self.reader}: {path}: {error}") from error
            rows.append({**row, "path": path} if self.include_paths else row)
        yield _block.from_rows(rows)


def decode_image(content: bytes, size: tuple[int, int] | None, mode: str | None) -> dict[str, Any]:
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        shown: Any = image if mode is None else image.convert(mode)
        if size is not None:
            height, width = size
            shown = shown.resize((width, height))
        return {"image": np.asarray(shown)}
