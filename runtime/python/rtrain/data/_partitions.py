"""Columns from the names of folders: `year=2024/part.parquet` has the column `year`."""

from __future__ import annotations

import posixpath
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rtrain._lazy import public_in
from rtrain.data._block import Block, as_arrow

_NULL = "__HIVE_DEFAULT_PARTITION__"  # Hive's name for null
_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


@dataclass(frozen=True)
class Partitioning:
    """How folder names become columns of the rows in the files below them. Readers accept it as `partitioning=`.

    style: "hive" for folders called `key=value`, "dir" for folders that are called by their values.
    base_dir: only folders below it are read; empty: all folders of a file's path.
    field_names: the columns, in the order of the folders; needed by "dir".
    field_types: int, float, bool or str by the name of a column; other columns have texts.

    In "hive", %20 and similar codes are decoded, and `__HIVE_DEFAULT_PARTITION__` is null.
    """

    style: str = "hive"
    base_dir: str | None = None
    field_names: Sequence[str] | None = None
    field_types: Mapping[str, type] | None = None

    def __post_init__(self) -> None:
        if self.style not in ("hive", "dir"):
            raise ValueError(f"Partitioning: style is {self.style!r}; it is 'hive' or 'dir'")
        if self.style == "dir" and not self.field_names:
            raise ValueError("Partitioning: style 'dir' needs field_names, a name for each folder")
        wrong = [name for name, kind in (self.field_types or {}).items() if kind not in _TYPES]
        if wrong:
            raise ValueError(f"Partitioning: field_types[{wrong[0]!r}] is none of str, int, float and bool")


def values_of(partitioning: Partitioning, path: str) -> dict[str, Any]:
    """Returns the columns of a file by its path. ValueError names the path if its folders do not match."""
    folder = _below_base(partitioning, posixpath.dirname(path))
    if folder is None:
        return {}
    folders = [part for part in folder.split("/") if part]
    pairs = _of_keys(folders) if partitioning.style == "hive" else _of_directories(partitioning, path, folders)
    values: dict[str, Any] = {}
    for name, text in pairs:
        value = _typed(partitioning, path, name, text)
        if name in values and values[name] != value:
            raise ValueError(f"{path}: two folders give the column {name!r} different values; partitioning=None leaves it out")
        values[name] = value
    if values and partitioning.field_names and list(values) != list(partitioning.field_names):
        raise ValueError(
            f"{path}: the folders give the columns {list(values)}, and field_names is {list(partitioning.field_names)}"
        )
    return values


def _below_base(partitioning: Partitioning, folder: str) -> str | None:
    base = (partitioning.base_dir or "").rstrip("/").rpartition("://")[2]
    if not base:
        return folder
    return folder[len(base) :] if folder == base or folder.startswith(base + "/") else None


def _of_keys(folders: list[str]) -> list[tuple[str, str]]:
    pairs = [folder.split("=") for folder in folders if folder.count("=") == 1]
    return [(_unquoted(key), _unquoted(text)) for key, text in pairs if key]


def _unquoted(text: str) -> str:
    return urllib.parse.unquote(text, errors="strict")


def _of_directories(partitioning: Partitioning, path: str, folders: list[str]) -> list[tuple[str, str]]:
    names = list(partitioning.field_names or ())
    if folders and len(folders) != len(names):
        raise ValueError(
            f"{path}: {len(folders)} folders ({'/'.join(folders)}) for the columns {', '.join(names)}; base_dir= names the folder above "
            "the first of them"
        )
    return list(zip(names, folders, strict=False))


def _typed(partitioning: Partitioning, path: str, name: str, text: str) -> Any:
    if text == _NULL:
        return None
    kind: Any = (partitioning.field_types or {}).get(name, str)
    try:
        return {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path}: the folder gives {name}={text!r}, which is no {kind.__name__} (field_types)") from error


def partitioning_of(caller: str, given: Any) -> Partitioning | None:
    """Returns the value of an argument `partitioning=`: None, "hive", or an object with the fields of Partitioning."""
    if given is None or isinstance(given, Partitioning):
        return given
    if given == "hive":
        return Partitioning()
    if hasattr(given, "style") and hasattr(given, "field_names"):
        style = str(getattr(given.style, "value", given.style))
        return Partitioning(style, given.base_dir or None, given.field_names, given.field_types)
    raise ValueError(f"{caller}: partitioning is {given!r}; it is 'hive', None or a rtrain.data.Partitioning")


@dataclass(frozen=True)
class Added:
    """The columns that folders add to the rows of a source's files. A file whose folders lack one has nulls.

    names: the requested columns. every: all columns of the folders. order: the columns of each row, if the user set them.
    """

    partitioning: Partitioning
    names: tuple[str, ...]
    every: tuple[str, ...]
    order: tuple[str, ...] | None = None

    def types(self) -> dict[str, Any]:
        return {name: _TYPES[(self.partitioning.field_types or {}).get(name, str)] for name in self.names}

    def to(self, block: Block, path: str) -> Block:
        """Returns the block with the columns of its file's folders. ValueError if the file itself has such a column with other
        values."""
        columns, values = dict(block.columns), values_of(self.partitioning, path)
        for name, kind in self.types().items():
            if name not in columns:
                columns[name] = pa.repeat(pa.scalar(values.get(name), kind), block.rows)
            elif name in values:
                _compare(path, name, as_arrow(columns[name], name), values[name])
        return block.with_columns(
            columns if self.order is None else {name: columns[name] for name in self.order if name in columns}
        )


def added(partitioning: Partitioning | None, paths: Sequence[str], columns: Sequence[str] | None) -> Added | None:
    """Returns the columns that the folders of these files add to `columns` (None: all); None if they add none."""
    if partitioning is None:
        return None
    folders = {posixpath.dirname(path): path for path in paths}
    every = tuple(dict.fromkeys(name for path in folders.values() for name in values_of(partitioning, path)))
    wanted = tuple(name for name in every if columns is None or name in columns)
    return Added(partitioning, wanted, every, None if columns is None else tuple(columns)) if every else None


def _compare(path: str, name: str, array: Any, value: Any) -> None:
    """Raises ValueError unless the file's own column has the folder's value in each row."""
    try:
        same = pc.is_null(array) if value is None else pc.equal(array, pa.scalar(value).cast(array.type)).fill_null(False)  # noqa: FBT003
        alike = len(array) == 0 or pc.all(same).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        alike = False
    if not alike:
        held = ", ".join(map(str, array.unique().to_pylist()[:3]))
        raise ValueError(
            f"{path}: the folder gives {name}={value!r}, and the file's own column {name!r} has {held}; partitioning=None reads "
            "the file's column alone"
        )


public_in("rtrain.data", Partitioning)
