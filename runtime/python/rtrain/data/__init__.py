"""Datasets for a training loop: read from files, changed by functions, each rank its share, resumable in mid-epoch.

`rtrain.data.read_parquet(...)` gives a `Dataset`: a plan, which reads nothing until rows are asked for and travels to the
workers as it is. In a run `datasets={"train": ds}` and `rtrain.train.get_dataset_shard("train")` give a `DataIterator` of
this rank's rows. docs/data.md has the rules; README.md beside the package how it is made.

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

# Pickles of version 0.1.0 look for these names in the modules that had them then.
vars(_iterator).update(DataIterator=DataIterator)
vars(_grouped).update(GroupedData=GroupedData)
vars(_dataset).update(_Dropped=_operations._Dropped, _Selected=_operations._Selected, _Renamed=_operations._Renamed)

MaterializedDataset = Dataset  # what `materialize` gives is one whose source lies in memory

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
