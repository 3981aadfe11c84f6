"""Batches as tensors. This module imports torch, so it is imported only for tensors."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

Dtypes = torch.dtype | Mapping[str, torch.dtype] | None


def device_of(device: str | torch.device | None) -> torch.device | None:
    """Returns the device of "auto": this worker's device in a run, the CPU elsewhere. None: tensors stay where they are made."""
    if device is None:
        return None
    if device != "auto":
        return torch.device(device)
    session = sys.modules.get("rtrain.train._session")
    if session is None or session.active() is None:
        return torch.device("cpu")
    from rtrain.train.torch import get_device

    return get_device()


def tensors(batch: Mapping[str, np.ndarray[Any, Any]], dtypes: Dtypes) -> dict[str, torch.Tensor]:
    """Returns the columns as tensors. TypeError names a column that cannot become a tensor."""
    if isinstance(dtypes, Mapping):
        unknown = sorted(set(dtypes) - set(batch))
        if unknown:
            raise KeyError(f"dtypes: there is no column {unknown[0]!r}; there are: {', '.join(batch)}")
    dtype_of = {name: dtypes.get(name) if isinstance(dtypes, Mapping) else dtypes for name in batch}
    return {name: tensor(name, column, dtype_of[name]) for name, column in batch.items()}


def tensor(name: str, column: np.ndarray[Any, Any], dtype: torch.dtype | None) -> torch.Tensor:
    if isinstance(column, np.ma.MaskedArray):
        if np.ma.getmaskarray(column).any():
            raise TypeError(
                f"the column {name!r} is no tensor: it holds nulls; fill them before (as array.filled(0) in map_batches), drop the rows by "
                "filter, or give collate_fn, whose arrays are masked"
            )
        column = column.data
    if column.dtype.kind not in "biufc":
        held = f"values of type {type(column[0]).__name__}" if column.dtype == object and len(column) else str(column.dtype)
        ragged = column.dtype == object and all(isinstance(cell, np.ndarray) for cell in column)
        how = "give collate_fn to pad them" if ragged else "leave it out by drop_columns, or give collate_fn"
        raise TypeError(f"the column {name!r} is no tensor: it holds {held}{' of different shapes' if ragged else ''}; {how}")
    if column.dtype.kind == "u" and column.dtype.itemsize > 1 and not hasattr(torch, str(column.dtype)):
        if column.dtype.itemsize == 8 and (column > np.iinfo(np.int64).max).any():
            raise TypeError(f"the column {name!r} is no tensor: this torch has no uint64, and a value is above int64's")
        column = column.astype(f"i{min(8, column.dtype.itemsize * 2)}")
    if not column.dtype.isnative:
        column = column.astype(column.dtype.newbyteorder("="))
    column_tensor = torch.from_numpy(column if column.flags.writeable else column.copy())
    return column_tensor if dtype is None else column_tensor.to(dtype)


class Batches(IterableDataset[Any]):
    """A share for a DataLoader (with batch_size=None). The loader's processes read separate parts of it."""

    rtrain_share = True

    def __init__(self, share: Any, begin: Callable[[Any], Iterator[Any]]) -> None:
        self.share, self.made = share, begin

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles with cloudpickle, for loader processes that are not forked."""
        import cloudpickle

        return _unpickled, (cloudpickle.dumps((self.share, self.made)),)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration, by which it shuffles. Loader processes need it, because each of them starts
        with the same epoch."""
        self.share.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self.share.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.share.load_state_dict(state)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        self.share.among = (0, 1) if info is None else (info.id, info.num_workers)
        return self.made(self.share)


def _unpickled(content: bytes) -> Batches:
    return Batches(*pickle.loads(content))


def features_and_label(
    batch: dict[str, torch.Tensor],
    label: str | None,
    features: list[str] | list[list[str]] | dict[str, list[str]] | None,
    *,
    unsqueeze_label: bool,
    unsqueeze_features: bool,
) -> tuple[Any, Any]:
    """Returns the result of `to_torch`: (features, label). A list of features is concatenated into one tensor."""
    if label is not None and label not in batch:
        raise KeyError(f"to_torch: there is no column {label!r}; there are: {', '.join(batch)}")
    target = None if label is None else batch[label]
    if target is not None and unsqueeze_label and target.ndim == 1:
        target = target.unsqueeze(1)
    names: Any = features if features is not None else [name for name in batch if name != label]

    def concatenated(columns: list[str]) -> torch.Tensor:
        missing = [name for name in columns if name not in batch]
        if missing:
            raise KeyError(f"to_torch: there is no column {missing[0]!r}; there are: {', '.join(batch)}")
        parts = [batch[name].unsqueeze(1) if unsqueeze_features and batch[name].ndim == 1 else batch[name] for name in columns]
        if len(parts) == 1 and not unsqueeze_features:
            return parts[0]
        whole = torch.cat(parts, dim=1)
        for name, part in zip(columns, parts, strict=True):
            if (
                part.dtype != whole.dtype
                and not part.is_floating_point()
                and not torch.equal(part, part.to(whole.dtype).to(part.dtype))
            ):
                raise TypeError(
                    f"to_torch: the column {name!r} holds {part.dtype}, and beside the other features it becomes {whole.dtype}, which does "
                    "not hold its values; give feature_columns as several lists, or feature_column_dtypes"
                )
        return whole

    if isinstance(names, dict):
        return {key: concatenated(list(columns)) for key, columns in names.items()}, target
    if names and isinstance(names[0], list | tuple):
        return [concatenated(list(columns)) for columns in names], target
    return concatenated(list(names)), target
