"""Sources that read files. A group of a Parquet file is a row group. Any other file is one group, read from its beginning."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from rtrain.data import _block
from rtrain.data._arrow import _decoded
from rtrain.data._block import Block
from rtrain.data._formats._lines import Csv, JsonLines, Lines, parse_json, parse_text
from rtrain.data._formats._of_files import FirstRowsDecide, OfFiles
from rtrain.data._partitions import added, values_of
from rtrain.data._paths import Files
from rtrain.data._plan import cut
from rtrain.data._source import Group, piece_rows
from rtrain.data._values import _schema

__all__ = [
    "Csv",
    "JsonLines",
    "Lines",
    "Npy",
    "Parquet",
    "WholeFiles",
    "decode_image",
    "parse_json",
    "parse_text",
]  # Pickles refer to these names.
_CHUNK = 1 << 20
_FOOTER_THREADS = 8
_SMALL_ROWS = 1024  # A piece with so many rows has no large rows.
# Verifies the checksums of pages. pyarrow has this option from release 15 on.
_VERIFIED = {"page_checksum_verification": True} if int(pa.__version__.partition(".")[0]) >= 15 else {}


class Parquet(OfFiles):
    """Parquet files. columns: the columns to read. `strict`: each file must have them; otherwise a file without one yields
    nulls."""

    sized = True
    strict = True  # for plans that an earlier version pickled
    _known: _schema.Known | None = None

    def __init__(self, files: Files, columns: list[str] | None, *, include_paths: bool, strict: bool = True) -> None:
        super().__init__("read_parquet", files, include_paths=include_paths)
        self.columns, self.strict = columns, strict
        self._footers: list[Any] = []
        self._units: list[tuple[int, int, int]] = []  # (file, row group, rows of a piece)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_footers": [], "_units": [], "_known": None}

    def footers(self) -> list[Any]:
        if not self._footers:
            with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
                self._footers = list(pool.map(self._footer, range(len(self.files.paths))))
        return self._footers

    def known(self) -> _schema.Known:
        """Returns the columns of the files."""
        if self._known is None:
            of_folders = () if self.folders is None else self.folders.every
            required = [name for name in self.columns or () if name not in of_folders] if self.strict else []
            files = list(zip(self.files.paths, self.footers(), strict=True))
            self._known = _schema.of_footers(self.reader, files, self.stored(), required, of_folders)
            if self.include_paths:
                _schema.without_path(self.reader, self._known.types, self.files.paths[0])
        return self._known

    def list_groups(self) -> list[Group]:
        self.known()
        with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
            some = list(pool.map(self._pieces, *zip(*self._row_groups(), strict=True)))
        pieces: list[list[tuple[int, int]]] = [[] for _ in self.files.paths]
        for (file, _), of_groups in zip(self._row_groups(), some, strict=True):
            pieces[file].extend(of_groups)
        self._units, groups = [], []
        for file, of_file in enumerate(pieces):
            for number, (each, nbytes) in enumerate(of_file):
                self._units.append((file, number, each))
                groups.append(Group(cut(self._footers[file].row_group(number).num_rows, each), nbytes))
        return groups

    def _footer(self, file: int) -> Any:
        path = self.files.paths[file]
        try:
            with self.random_file(file) as opened:
                return parquet.ParquetFile(opened).metadata
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"read_parquet: {path}: {error}") from error

    def _row_groups(self) -> list[tuple[int, range]]:
        """Returns ranges of row groups, each inspected by one thread. The row groups of a remote file are inspected in
        parallel."""
        some: list[tuple[int, range]] = []
        for file, footer in enumerate(self._footers):
            each = math.ceil(footer.num_row_groups / _FOOTER_THREADS) if self.files.far else footer.num_row_groups
            starts = range(0, max(footer.num_row_groups, 1), max(each, 1))
            some.extend((file, range(start, min(start + each, footer.num_row_groups))) for start in starts)
        return some

    def _pieces(self, file: int, numbers: range) -> list[tuple[int, int]]:
        """Returns the rows of a piece and the decoded bytes, for some row groups of a file."""
        pieces: list[tuple[int, int]] = []
        with contextlib.ExitStack() as stack:

            def reader(dictionaries: list[str]) -> Any:
                opened = stack.enter_context(self.random_file(file))
                return self._reader(opened, file, dictionaries)

            try:
                pieces.extend(_decoded.pieces_of(self._footers[file], self.stored_in(file), reader, numbers))
            except (pa.ArrowException, OSError) as error:
                failure = self._failure(file, numbers.start + len(pieces), error)
                raise type(failure)(f"read_parquet: {self.files.paths[file]}: {failure}") from error
        return pieces

    def _reader(self, opened: Any, file: int, dictionaries: list[str] | None = None) -> Any:
        return parquet.ParquetFile(
            opened, metadata=self._footers[file], buffer_size=_CHUNK, read_dictionary=dictionaries, **_VERIFIED
        )

    def schema(self) -> dict[str, Any]:
        """Returns the columns of a row and their types. Columns of folders are last, unless the user set an order."""
        types = dict(self.known().types)
        for name, kind in ({} if self.folders is None else self.folders.types()).items():
            types.setdefault(name, kind)
        return types if self.columns is None else {name: types[name] for name in self.columns}

    def names(self) -> list[str]:
        return [*self.schema(), *(["path"] if self.include_paths else [])]

    def types(self) -> list[Any]:
        return [*self.schema().values(), *([pa.string()] if self.include_paths else [])]

    def fitted(self, block: Block, place: int, piece: int) -> Block:
        known, of_folders = self.known(), () if self.folders is None else self.folders.names
        types = known.types
        if any(name in of_folders and name not in block.columns for name in types):
            types = {name: kind for name, kind in types.items() if name in block.columns or name not in of_folders}
        try:
            return _schema.with_types(Block(block.columns, known.without_nulls, block.origin), types)
        except TypeError as error:
            raise TypeError(f"{self.reader}: {block.origin}: {error}") from error

    def selected(self, columns: list[str]) -> Parquet:
        """Returns a source of fewer columns. A file that lacks one yields nulls, as in this source."""
        selected = Parquet(self.files, columns, include_paths=False, strict=False)
        if self.folders is not None:
            selected.folders = added(self.folders.partitioning, self.files.paths, columns)
        return selected

    def stored(self) -> list[str] | None:
        """Returns the columns that come from the files (None: all), not from folders."""
        if self.columns is None or self.folders is None:
            return self.columns
        own = self.footers()[0].schema.to_arrow_schema().names
        return [name for name in self.columns if name in own or name not in self.folders.names] or own[:1]

    def stored_in(self, file: int) -> list[str] | None:
        """Returns the requested columns that one file has. Returns its first column if it has none of them, to get the number
        of rows."""
        wanted = self.stored()
        if wanted is None or (self.strict and self.folders is None):
            return wanted
        own = self.footers()[file].schema.to_arrow_schema().names
        return [name for name in wanted if name in own] or own[:1]

    def where(self, place: int) -> str:
        self.groups()
        return self.files.paths[self._units[place][0]]

    def far_bytes(self, place: int) -> int:
        if not self.files.far:
            return 0
        return sum(stop - start for start, stop in self._ranges(place))

    def begin(self, place: int) -> Callable[[int], Iterator[Block]]:
        if not self.files.far:
            return super().begin(place)
        opened = self.random_file(self._units[place][0], self._ranges(place))
        return lambda piece: self.completed(place, piece, self._blocks(place, piece, opened))

    def blocks(self, place: int, piece: int) -> Iterator[Block]:
        self.groups()
        return self._blocks(place, piece, self.random_file(self._units[place][0], self._ranges(place)))

    def _ranges(self, place: int) -> list[tuple[int, int]]:
        """Returns the byte ranges of the group's requested columns."""
        if not self.files.far:
            return []
        self.groups()
        file, number, _ = self._units[place]
        return _decoded.ranges_of(self._footers[file], number, self.stored_in(file))

    def _blocks(self, place: int, piece: int, file_object: Any) -> Iterator[Block]:
        file, number, each = self._units[place]
        with file_object as opened:
            at_once = 2 * each if each >= _SMALL_ROWS else each  # Arrow's reader is faster with larger steps.
            batches = self._reader(opened, file).iter_batches(
                batch_size=at_once, row_groups=[number], columns=self.stored_in(file)
            )
            for skipped, block in enumerate(_exactly(each, map(_block.from_arrow, self._verified(file, number, batches)))):
                if skipped >= piece:
                    yield block

    def _verified(self, file: int, number: int, batches: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from batches
        except (pa.ArrowException, OSError) as error:
            raise self._failure(file, number, error) from error

    def _failure(self, file: int, number: int, error: Exception) -> Exception:
        """Returns an error that names the row group, and the columns whose bytes are damaged."""
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
        with self.random_file(file) as opened:
            for name in self.stored_in(file) or self._footers[file].schema.to_arrow_schema().names:
                try:
                    for _ in self._reader(opened, file).iter_batches(batch_size=1024, row_groups=[number], columns=[name]):
                        pass
                except (pa.ArrowException, OSError):
                    damaged.append(name)
        return damaged


def _exactly(each: int, blocks: Iterator[Block]) -> Iterator[Block]:
    """Yields blocks of `each` rows. The last one has the rest."""
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


class Npy(FirstRowsDecide):
    """Arrays saved by `numpy.save`. Local files are mapped into memory, not read as a whole."""

    hint = "save the arrays with one dtype"

    sized = True

    def __init__(self, files: Files, *, include_paths: bool) -> None:
        super().__init__("read_numpy", files, include_paths=include_paths)

    def names(self) -> list[str]:
        return ["data", *self.added_names()]

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
            with self.random_file(place, [(0, self.files.sizes[place])]) as opened:
                return np.load(io.BytesIO(opened.read()))
        except ValueError as error:
            raise ValueError(f"read_numpy: {path}: {error}") from error

    def blocks(self, place: int, piece: int) -> Iterator[Block]:
        array = self._array(place)
        each = self._each(array)
        for start in range(piece * each, len(array), each):
            yield Block({"data": np.array(array[start : start + each])})


class WholeFiles(OfFiles):
    """One row for each file. A group is one piece, which is a large file or several small ones."""

    apart = sized = True

    def __init__(
        self, reader: str, files: Files, row: Callable[[bytes], dict[str, Any]], most: int, *, include_paths: bool
    ) -> None:
        super().__init__(reader, files, include_paths=include_paths)
        self.row, self.most = row, most
        self._units: list[tuple[int, int]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_units": []}

    def list_groups(self) -> list[Group]:
        self._units, start, nbytes = [], 0, 0
        for place, size in enumerate(self.files.sizes):
            if place > start and (place - start >= self.most or nbytes + size > 4 << 20):
                self._units.append((start, place))
                start, nbytes = place, 0
            nbytes += size
        self._units.append((start, len(self.files.paths)))
        return [Group([stop - first], sum(self.files.sizes[first:stop])) for first, stop in self._units]

    def where(self, place: int) -> str:
        self.groups()
        return self.files.paths[self._units[place][0]]

    def open(self, place: int, piece: int) -> Iterator[Block]:
        self.groups()
        if piece > 0:
            return
        first, stop = self._units[place]
        rows, paths = [], self.files.paths[first:stop]
        far = [self.random_file(file, [(0, self.files.sizes[file])]) for file in range(first, stop)] if self.files.far else []
        for number, path in enumerate(paths):
            try:
                with far[number] if far else self.random_file(first + number) as opened:
                    rows.append(self.row(opened.read()))
            except (OSError, ValueError) as error:
                raise ValueError(f"{self.reader}: {path}: {error}") from error
        columns = _block.from_rows(rows).columns
        if self.folders is not None:
            of_folders = [values_of(self.folders.partitioning, path) for path in paths]
            for name, kind in self.folders.types().items():
                columns[name] = pa.array([values.get(name) for values in of_folders], kind)
        yield Block({**columns, "path": pa.array(paths)} if self.include_paths else columns)


def decode_image(content: bytes, size: tuple[int, int] | None, mode: str | None) -> dict[str, Any]:
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        shown: Any = image if mode is None else image.convert(mode)
        if size is not None:
            height, width = size
            shown = shown.resize((width, height))
        return {"image": np.asarray(shown)}
