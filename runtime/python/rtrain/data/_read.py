"""Creates datasets from values in memory, from datasets of other libraries, and from files."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rtrain._arguments import READERS, check, check_named
from rtrain._lazy import public_in
from rtrain.data import _block, _files, _paths
from rtrain.data._block import Block
from rtrain.data._dataset import Dataset, check_seed
from rtrain.data._folders import Endings, compressed
from rtrain.data._formats._of_files import OfFiles
from rtrain.data._in_streams._mixed import mixed
from rtrain.data._in_streams._turns import Strategy
from rtrain.data._partitions import added, partitioning_of
from rtrain.data._plan import Read
from rtrain.data._source import Counting, Indexed, InMemory, Source, Streamed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rtrain._argument_types import ReaderArguments

_IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp")


def from_items(items: Sequence[Any], *, parallelism: int = -1, override_num_blocks: int | None = None) -> Dataset:
    """Returns a Dataset of `items`: dicts are rows, other values become the column `item`.

    parallelism, override_num_blocks: change nothing.
    """
    check_named("from_items", parallelism=parallelism, override_num_blocks=override_num_blocks)
    rows = [item if isinstance(item, Mapping) else {"item": item} for item in items]
    return _dataset(InMemory(f"from_items({len(rows)})", _block.from_rows(rows).with_counted_nulls()))


def from_numpy(ndarrays: Any, column: str = "data") -> Dataset:
    """Returns a Dataset with one column: the rows of an array, or of a list of arrays, concatenated."""
    arrays = list(ndarrays) if isinstance(ndarrays, list | tuple) else [ndarrays]
    if not arrays or not all(isinstance(array, np.ndarray) and array.ndim for array in arrays):
        raise TypeError("from_numpy takes an array with at least one dimension, or a list of them")
    return _dataset(InMemory("from_numpy", _block.concat(Block({column: array}) for array in arrays)))


def from_pandas(dfs: Any, **ignored: Unpack[ReaderArguments]) -> Dataset:
    """Returns a Dataset of a DataFrame, or of a list of them, concatenated. The index is left out."""
    check("from_pandas", ignored, READERS)
    frames = list(dfs) if isinstance(dfs, list | tuple) else [dfs]
    if not frames or not all(hasattr(frame, "iloc") and hasattr(frame, "columns") for frame in frames):
        raise TypeError("from_pandas takes a DataFrame, or a list of them")
    return _dataset(InMemory("from_pandas", _block.concat(map(_block.from_pandas, frames)).with_counted_nulls()))


def from_arrow(tables: Any, **ignored: Unpack[ReaderArguments]) -> Dataset:
    """Returns a Dataset of a Table or RecordBatch, or of a list of them, concatenated."""
    check("from_arrow", ignored, READERS)
    given = list(tables) if isinstance(tables, list | tuple) else [tables]
    if not given or not all(isinstance(table, pa.Table | pa.RecordBatch) for table in given):
        raise TypeError("from_arrow takes a pyarrow Table or RecordBatch, or a list of them")
    return _dataset(InMemory("from_arrow", _block.concat(map(_block.from_arrow, given)).with_counted_nulls()))


def from_torch(dataset: Any, **ignored: Unpack[ReaderArguments]) -> Dataset:
    """Returns a Dataset of a torch Dataset. Its items become the column `item`; items that are dicts become rows.

    An item is fetched when it is read. An IterableDataset is iterated again for each epoch.
    """
    check("from_torch", ignored, READERS)
    name = f"from_torch({type(dataset).__name__})"
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        return _dataset(Indexed(name, len(dataset), functools.partial(_items, dataset)))
    if hasattr(dataset, "__iter__"):
        return _dataset(Streamed(name, dataset))
    raise TypeError(f"from_torch takes a torch Dataset, not {type(dataset).__name__}")


def _items(dataset: Any, start: int, stop: int) -> Block:
    items = [dataset[place] for place in builtin_range(start, stop)]
    return _block.from_rows([item if isinstance(item, dict) else {"item": item} for item in items])


def from_huggingface(dataset: Any, **ignored: Unpack[ReaderArguments]) -> Dataset:
    """Returns a Dataset of a `datasets.Dataset`. A row is fetched when it is read.

    An IterableDataset is iterated again for each epoch.
    """
    check("from_huggingface", ignored, READERS)
    if isinstance(dataset, Mapping):
        raise TypeError(
            f"from_huggingface takes one dataset, and this is several: {', '.join(map(str, dataset))}; name one of them"
        )
    if hasattr(dataset, "with_format") and hasattr(dataset, "__len__"):
        return _dataset(Indexed("from_huggingface", len(dataset), functools.partial(_arrow_rows, dataset), 4096))
    if hasattr(dataset, "__iter__") and hasattr(dataset, "features"):
        return _dataset(Streamed("from_huggingface", dataset))
    raise TypeError(f"from_huggingface takes a datasets.Dataset, not {type(dataset).__name__}")


def _arrow_rows(dataset: Any, start: int, stop: int) -> Block:
    return _block.from_arrow(dataset.with_format("arrow")[start:stop])


builtin_range = range


def range(n: int, **ignored: Unpack[ReaderArguments]) -> Dataset:  # noqa: A001
    """Returns a Dataset with the column `id`: the numbers from 0 to n - 1."""
    check("range", ignored, READERS)
    return _dataset(Counting(_count("range", n)))


def range_tensor(n: int, *, shape: tuple[int, ...] = (1,), **ignored: Unpack[ReaderArguments]) -> Dataset:
    """Returns a Dataset with the column `data`: arrays of `shape` filled with the numbers from 0 to n - 1."""
    check("range_tensor", ignored, READERS)
    return _dataset(Counting(_count("range_tensor", n), tuple(shape)))


# -- files --------------------------------------------------------------------------------------------------------------
def read_parquet(
    paths: _paths.Paths,
    *,
    filesystem: Any = None,
    columns: Sequence[str] | None = None,
    include_paths: bool = False,
    partitioning: Any = "hive",
    file_extensions: Any = None,
    shuffle: Any = None,
    **ignored: Unpack[ReaderArguments],
) -> Dataset:
    """Returns a Dataset of Parquet files, which are read row group by row group, a few MiB at a time.

    paths: a file, a folder, a pattern with `*`, or a list of these: local, s3://, gs://, abfss://, or on `filesystem`.
    columns: which columns to read; each file must have them. Left out, all of all files: rows of a file that lacks one have nulls.
    include_paths: adds the column `path`.
    file_extensions: which files of folders to read.
    shuffle: "files", or an object with a `seed`: row groups (of other formats: files) come in a random order, another one in
    each epoch.

    partitioning: "hive" adds a column of texts for each folder called `key=value` in a file's path. A `Partitioning` says more,
    None adds none.

    FileNotFoundError names a path that is not there. ValueError names a file whose own column differs from its folder's. A
    warning names the files of a folder that are not read.
    """
    check("read_parquet", ignored, READERS)
    names = None if columns is None else [columns] if isinstance(columns, str) else list(columns)
    files = _matching_files("read_parquet", paths, filesystem, file_extensions, (".parquet", ".pq"))
    source = _files.Parquet(files, names, include_paths=include_paths)
    source.folders = added(partitioning_of("read_parquet", partitioning), files.paths, names)
    if names is not None:
        source.schema()  # raises the error for an unknown column at once
    return _of_files("read_parquet", shuffle, source)


def read_csv(
    paths: _paths.Paths,
    *,
    filesystem: Any = None,
    columns: Sequence[str] | None = None,
    include_paths: bool = False,
    partitioning: Any = "hive",
    file_extensions: Any = None,
    shuffle: Any = None,
    read_options: Any = None,
    parse_options: Any = None,
    convert_options: Any = None,
    **ignored: Unpack[ReaderArguments],
) -> Dataset:
    """Returns a Dataset of CSV files. The first MiB of a file decides the types of its columns.

    Numbers with a zero in front, and integers that no float holds, make their column one of texts.
    ValueError names row and column of a value that does not fit.

    Columns are those of the first file. Rows of a file that lacks one have nulls; a file with another column is an error.

    read_options, parse_options, convert_options: those of pyarrow.csv; ConvertOptions(column_types=...) sets types.
    The other arguments are those of `read_parquet`.
    """
    from pyarrow import csv

    check("read_csv", ignored, READERS)
    files = _matching_files("read_csv", paths, filesystem, file_extensions, compressed((".csv", ".tsv")))
    names = None if columns is None else [columns] if isinstance(columns, str) else list(columns)
    folders = added(partitioning_of("read_csv", partitioning), files.paths, names)
    if names is not None:
        convert_options = copy.copy(convert_options) or csv.ConvertOptions()
        convert_options.include_columns = [name for name in names if folders is None or name not in folders.names]
    options = {"read_options": read_options, "parse_options": parse_options, "convert_options": convert_options}
    given = {name: value for name, value in options.items() if value is not None}
    source = _files.Csv(files, given, include_paths=include_paths)
    source.folders = folders
    return _of_files("read_csv", shuffle, source)


def read_json(
    paths: _paths.Paths,
    *,
    filesystem: Any = None,
    lines: bool = True,
    include_paths: bool = False,
    partitioning: Any = "hive",
    file_extensions: Any = None,
    shuffle: Any = None,
    read_options: Any = None,
    parse_options: Any = None,
    **ignored: Unpack[ReaderArguments],
) -> Dataset:
    """Returns a Dataset of JSON files with an object in each line; with lines=False, of files that hold one list of objects.

    parse_options: pyarrow.json.ParseOptions(explicit_schema=...) sets types.
    read_options: those of pyarrow.json. The other arguments are those of `read_parquet`.
    """
    check("read_json", ignored, READERS)
    check_named("read_json", lines=lines)
    options = {
        name: value for name, value in (("read_options", read_options), ("parse_options", parse_options)) if value is not None
    }
    files = _matching_files("read_json", paths, filesystem, file_extensions, compressed((".json", ".jsonl", ".ndjson")))
    parsed = functools.partial(_files.parse_json, options=options)
    source = _files.JsonLines("read_json", files, parsed, include_paths=include_paths)
    return _of_files("read_json", shuffle, _with_folders(source, partitioning))


def read_text(
    paths: _paths.Paths,
    *,
    filesystem: Any = None,
    encoding: str = "utf-8",
    drop_empty_lines: bool = True,
    include_paths: bool = False,
    partitioning: Any = None,
    file_extensions: Any = None,
    shuffle: Any = None,
    **ignored: Unpack[ReaderArguments],
) -> Dataset:
    """Returns a Dataset with the column `text`, a row for each line.

    encoding: of the files. drop_empty_lines: leaves out lines without text.
    The other arguments are those of `read_parquet`.
    """
    check("read_text", ignored, READERS)
    if encoding.lower().replace("_", "-") == "utf-8-sig":
        encoding = "utf-8"  # The reader skips a byte order mark in both encodings.
    if "\n".encode(encoding) != b"\n":
        raise ValueError(
            f"read_text: the encoding {encoding} does not end lines with one byte; convert the files, or use read_binary_files"
        )
    files = _matching_files("read_text", paths, filesystem, file_extensions, ())
    parsed = functools.partial(_files.parse_text, encoding=encoding, drop_empty_lines=drop_empty_lines)
    source = _files.Lines("read_text", files, parsed, include_paths=include_paths)
    return _of_files("read_text", shuffle, _with_folders(source, partitioning))


def read_numpy(
    paths: _paths.Paths,
    *,
    filesystem: Any = None,
    include_paths: bool = False,
    partitioning: Any = None,
    file_extensions: Any = None,
    shuffle: Any = None,
    **ignored: Unpack[ReaderArguments],
) -> Dataset:
    """Returns a Dataset of `.npy` files with the column `data`, a row for each entry of the first dimension.

    The arguments are those of `read_parquet`.
    """
    check("read_numpy", ignored, READERS)
    files = _matching_files("read_numpy", paths, filesystem, file_extensions, (".npy",))
    return _of_files("read_numpy", shuffle, _with_folders(_files.Npy(files, include_paths=include_paths), partitioning))


def read_binary_files(
    paths: _paths.Paths,
    *,
    filesystem: Any = None,
    include_paths: bool = False,
    partitioning: Any = None,
    file_extensions: Any = None,
    shuffle: Any = None,
    **ignored: Unpack[ReaderArguments],
) -> Dataset:
    """Returns a Dataset with the column `bytes`, a row for each file. The other arguments are those of `read_parquet`."""
    check("read_binary_files", ignored, READERS)
    files = _matching_files("read_binary_files", paths, filesystem, file_extensions, ())
    source = _files.WholeFiles("read_binary_files", files, _as_bytes, 64, include_paths=include_paths)
    return _of_files("read_binary_files", shuffle, _with_folders(source, partitioning))


def _as_bytes(content: bytes) -> dict[str, Any]:
    return {"bytes": content}


def read_images(
    paths: _paths.Paths,
    *,
    filesystem: Any = None,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    include_paths: bool = False,
    partitioning: Any = None,
    file_extensions: Any = None,
    shuffle: Any = None,
    **ignored: Unpack[ReaderArguments],
) -> Dataset:
    """Returns a Dataset with the column `image`: arrays (height, width, channels), a row for each file.

    size: (height, width) to resize to.
    mode: what Pillow converts to, as "RGB".
    The other arguments are those of `read_parquet`.
    """
    check("read_images", ignored, READERS)
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise ImportError("read_images needs Pillow: pip install pillow") from error
    if size is not None and (len(size) != 2 or any(side < 1 for side in size)):
        raise ValueError(f"read_images: size is {size}; it is (height, width)")
    files = _matching_files("read_images", paths, filesystem, file_extensions, _IMAGES)
    row = functools.partial(_files.decode_image, size=size, mode=mode)
    source = _files.WholeFiles("read_images", files, row, 32, include_paths=include_paths)
    return _of_files("read_images", shuffle, _with_folders(source, partitioning))


def mix(
    weights: Mapping[Dataset, float],
    *,
    seed: int | None = None,
    stopping_strategy: Strategy = "first_exhausted",
    schedule: Mapping[int, Mapping[Dataset, float]] | Mapping[tuple[int, int], Mapping[Dataset, float]] | None = None,
) -> Dataset:
    """Returns a Dataset of rows of several datasets, by weights: `mix({web: 0.7, code: 0.3}, seed=1)`.

    1,000 neighbouring rows of a stream have as many rows of each dataset as its weight says, in a random order. The rows of one dataset
    keep their order. Rows have the columns of all datasets; a column that one of them lacks is null there.

    weights: one for each dataset, from 0 on. Only their proportions count.
    seed: makes the choices the same in each run; without it they follow from the run. Epochs have other choices either way.
    stopping_strategy: when an epoch ends. "first_exhausted": where a row of a dataset would follow that has none left. "all_exhausted":
    where that holds of each dataset; until then a dataset that ended begins again, as in another epoch.
    "all_exhausted_without_replacement": where no row is left; a dataset that ended is left out from there on.
    schedule: other weights, by how many rows the epoch gave out before them, in all ranks: `{10_000 * 256: {web: 0.5, code: 0.5}}` holds
    from step 10,000 of batches with 256 rows on. A key counts in epoch 0, or is (epoch, rows). A dataset without a weight has 0.

    TypeError for other keys than datasets. ValueError for weights below 0, or of which none is above 0, for other keys of `schedule`,
    and, when rows are read, for a dataset without rows.
    """
    if not isinstance(weights, Mapping) or not all(isinstance(dataset, Dataset) for dataset in weights):
        raise TypeError("mix: weights is a dict of numbers by dataset, such as {web: 0.7, code: 0.3}")
    nodes = {dataset: dataset._node for dataset in weights}
    return Dataset(mixed(weights, nodes, check_seed("mix", seed), stopping_strategy, schedule))


def _with_folders(source: OfFiles, partitioning: Any) -> Source:
    source.folders = added(partitioning_of(source.reader, partitioning), source.files.paths, None)
    return source


def _dataset(source: Source) -> Dataset:
    return Dataset(Read(source))


def _matching_files(caller: str, paths: _paths.Paths, filesystem: Any, extensions: Any, usual: tuple[str, ...]) -> _paths.Files:
    """Returns the files with these extensions in folders, globs and lists. None: folders are read for the reader's own
    extensions."""
    if extensions is None:
        return _paths.find(caller, paths, filesystem, Endings(usual))
    names = [extensions] if isinstance(extensions, str) else list(extensions)
    if not names or not all(isinstance(extension, str) and extension.strip(".") for extension in names):
        raise ValueError(f"{caller}: file_extensions is {extensions!r}; it is a list such as ['csv']")
    suffixes = tuple("." + extension.lstrip(".").lower() for extension in names)
    files = _paths.find(caller, paths, filesystem, Endings(suffixes, chosen_by_user=True))
    kept = [place for place, path in enumerate(files.paths) if path.lower().endswith(suffixes)]
    if not kept:
        raise FileNotFoundError(
            f"{caller}: none of {len(files.paths)} files ({files.paths[0]} ...) ends with {' or '.join(suffixes)}"
        )
    return _paths.Files(files.system, [files.paths[place] for place in kept], [files.sizes[place] for place in kept])


def _of_files(caller: str, shuffle: Any, source: Source) -> Dataset:
    """Returns a Dataset of a source. shuffle: "files", or an object with a `seed`: files (Parquet: row groups) come in a random
    order, which differs in each epoch."""
    if shuffle is None:
        return _dataset(source)
    if shuffle != "files" and not hasattr(shuffle, "seed"):
        raise ValueError(f"{caller}: shuffle is {shuffle!r}; it is 'files', an object with a seed, or None")
    return _dataset(source).randomize_block_order(seed=getattr(shuffle, "seed", None))


def _count(caller: str, n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise ValueError(f"{caller}: {n!r} is no whole number from 0 on")
    return int(n)


public_in(
    "rtrain.data",
    from_arrow,
    from_huggingface,
    from_items,
    from_numpy,
    from_pandas,
    from_torch,
    mix,
    range,
    range_tensor,
    read_binary_files,
    read_csv,
    read_images,
    read_json,
    read_numpy,
    read_parquet,
    read_text,
)
