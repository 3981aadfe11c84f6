"""Datasets for a training loop. A dataset is read from files and changed by functions. Each rank reads its share, and an
interrupted epoch can be resumed.

`rtrain.data.read_parquet(...)` returns a `Dataset`. It is a plan: it reads nothing until rows are requested, and workers
receive the plan itself. In a run, pass `datasets={"train": ds}` to the trainer. `rtrain.train.get_dataset_shard("train")` then
returns a `DataIterator` of this rank's rows. docs/data.md has the rules.

Needs pyarrow 14 or newer, and NumPy: the extra `data`.
"""

from __future__ import annotations

try:
    import numpy  # noqa: F401, ICN001
    import pyarrow
except ImportError as _error:
    _message = f"rtrain.data needs pyarrow (14 or newer) and NumPy: pip install 'pyarrow>=14' numpy ({_error})"
    raise type(_error)(_message, name=_error.name) from _error
if int(pyarrow.__version__.partition(".")[0]) < 14:
    raise ImportError(f"rtrain.data needs pyarrow 14 or newer, and this is {pyarrow.__version__}: pip install 'pyarrow>=14'")

from rtrain._chance import generator
from rtrain.data import _dataset, _grouped, _iterator, _operations
from rtrain.data._context import DataContext
from rtrain.data._dataset import DataIterator, Dataset, GroupedData, Schema
from rtrain.data._making._placing import ActorPoolStrategy, TaskPoolStrategy
from rtrain.data._ops import UserCodeError
from rtrain.data._partitions import Partitioning
from rtrain.data._parts import SaveMode
from rtrain.data._read import (
    from_arrow,
    from_huggingface,
    from_items,
    from_numpy,
    from_pandas,
    from_torch,
    mix,
    range,  # noqa: A004
    range_tensor,
    read_binary_files,
    read_csv,
    read_images,
    read_json,
    read_numpy,
    read_parquet,
    read_text,
)

# Pickles of version 0.1.0 refer to these names by their modules at that time.
vars(_iterator).update(DataIterator=DataIterator)
vars(_grouped).update(GroupedData=GroupedData)
vars(_dataset).update(_Dropped=_operations._Dropped, _Selected=_operations._Selected, _Renamed=_operations._Renamed)

MaterializedDataset = Dataset  # The name of Ray Data for the result of `materialize`, a dataset whose source is in memory.

__all__ = [
    "ActorPoolStrategy",
    "DataContext",
    "DataIterator",
    "Dataset",
    "GroupedData",
    "MaterializedDataset",
    "Partitioning",
    "SaveMode",
    "Schema",
    "TaskPoolStrategy",
    "UserCodeError",
    "from_arrow",
    "from_huggingface",
    "from_items",
    "from_numpy",
    "from_pandas",
    "from_torch",
    "generator",
    "mix",
    "range",
    "range_tensor",
    "read_binary_files",
    "read_csv",
    "read_images",
    "read_json",
    "read_numpy",
    "read_parquet",
    "read_text",
]
