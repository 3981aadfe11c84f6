"""The common part of sources that read files: names, errors, columns of folders, and opening files."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from rtrain.data._block import Block
from rtrain.data._far._file import RandomFile, SequentialFile
from rtrain.data._far._parts import Parts
from rtrain.data._folders import COMPRESSIONS
from rtrain.data._partitions import Added
from rtrain.data._paths import Files
from rtrain.data._source import Group, Source
from rtrain.data._values import _schema

_ARCHIVES = (".7z", ".lzma", ".rar", ".snappy", ".tar", ".tgz", ".xz", ".z", ".zip")


class OfFiles(Source):
    """A source of files. Cached facts about the files' rows are not pickled, because the files may differ where the plan is
    read."""

    folders: Added | None = None  # columns that the files' folders add
    _parts: Parts | None = None

    def __init__(self, reader: str, files: Files, *, include_paths: bool = False) -> None:
        self.name = f"{reader}({files.says()})"
        self.reader, self.files, self.include_paths = reader, files, include_paths
        self._groups: list[Group] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_groups": None, "_parts": None}

    @property
    def parts(self) -> Parts:
        """Returns the object that fetches parts of remote files. Local files are read directly."""
        if self._parts is None:
            self._parts = Parts(self.files.system)
        return self._parts

    def random_file(self, file: int, ranges: Sequence[tuple[int, int]] = ()) -> Any:
        """Opens a file for random access. `ranges` will be read soon."""
        path = self.files.paths[file]
        if not self.files.far or not self.files.sizes[file]:  # Some file systems do not report the size.
            return self.files.system.open_input_file(path)
        return pa.PythonFile(RandomFile(self.parts, path, self.files.sizes[file], ranges), mode="r")

    def groups(self) -> Sequence[Group]:
        if self._groups is None:
            self._groups = self.list_groups()
        return self._groups

    def list_groups(self) -> list[Group]:
        return [Group(None, size) for size in self.files.sizes]

    def where(self, place: Any) -> str:
        path: str = self.files.paths[place]
        return path

    def open(self, place: Any, piece: int) -> Iterator[Block]:
        return self.completed(place, piece, self.blocks(place, piece))

    def completed(self, place: Any, piece: int, blocks: Iterator[Block]) -> Iterator[Block]:
        """Yields a group's blocks from piece `piece` on, with all columns. Errors name the file."""
        path = self.where(place)
        for number, block in enumerate(self.named(place, blocks), piece):
            block.origin = path
            yield self.with_path(self.fitted(block, place, number), path)

    def named(self, place: Any, blocks: Iterator[Block]) -> Iterator[Block]:
        """Yields a group's blocks. Errors name the file."""
        try:
            yield from blocks
        except (pa.ArrowException, OSError, ValueError) as error:
            kind = OSError if isinstance(error, OSError) else ValueError
            raise kind(f"{self.reader}: {self.where(place)}: {self.located(place, error)}") from error

    def located(self, place: Any, error: Exception) -> Exception:
        """Returns the error with the file's name and the position."""
        return error

    def fitted(self, block: Block, place: Any, piece: int) -> Block:
        """Returns a piece's block with the columns of all files."""
        return block

    def stream(self, place: int) -> Any:
        """Opens a file for reading from its beginning. It is decompressed by the suffix of its name."""
        path = self.where(place)
        ending = posixpath.splitext(path)[1].lower()
        if ending in _ARCHIVES:
            raise ValueError(f"{ending} is no compression that is read here ({', '.join(COMPRESSIONS)} are); decompress the file")
        if ending in COMPRESSIONS and self.files.system.get_file_info(path).size == 0:
            raise ValueError(f"the file is empty, as no {ending} file is: it was cut off; copy it again")
        compression = COMPRESSIONS.get(ending)
        if not self.files.far or not self.files.sizes[place]:
            return self.files.system.open_input_stream(path, compression=compression)
        opened = pa.PythonFile(SequentialFile(self.parts, path, self.files.sizes[place]), mode="r")
        return opened if compression is None else pa.CompressedInputStream(opened, compression)

    def added_names(self) -> list[str]:
        """Returns the columns that do not come from the files themselves."""
        return [*(() if self.folders is None else self.folders.names), *(["path"] if self.include_paths else [])]

    def is_compressed(self, place: int) -> bool:
        return self.where(place).lower().endswith(tuple(COMPRESSIONS))

    def with_path(self, block: Block, path: str) -> Block:
        block = block if self.folders is None else self.folders.to(block, path)
        if not self.include_paths:
            return block
        _schema.without_path(self.reader, block.names, path)
        return block.with_columns({**block.columns, "path": pa.array([path] * block.rows, pa.string())})

    def blocks(self, place: int, piece: int) -> Iterator[Block]:
        """Yields the file's own blocks, from piece `piece` on."""
        raise NotImplementedError


class FirstRowsDecide(OfFiles):
    """Files whose columns are found by reading. All files have the columns of the first rows of the first file."""

    hint = ""  # the way in which a user can set columns and types, for messages
    _of_first_rows: _schema.Found | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_of_first_rows": None}

    def fitted(self, block: Block, place: Any, piece: int) -> Block:
        if self._of_first_rows is None and (place, piece) == (0, 0):
            self._of_first_rows = _schema.Found(self.reader, self.hint, block, self.where(place))
        if self._of_first_rows is None:
            heads = (
                (file, head)
                for file in range(len(self.files.paths))
                for head in self.named(file, self.blocks(file, 0))
                if head.rows
            )
            file, head = next(heads)
            self._of_first_rows = _schema.Found(self.reader, self.hint, head, self.where(file))
        return self._of_first_rows.fitted(block, self.where(place))
