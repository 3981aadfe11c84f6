"""Epochs of a dataset, or of one rank's share of it: rows, batches, and the progress of an epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rtrain._waits import measured
from rtrain.data import _batches
from rtrain.data._block import Block, check_format
from rtrain.data._dealing._progress import OfLanes, Progress
from rtrain.data._share import Share, agreed

_AUTO_ROWS = 256
_UNSET: Any = type("_Unset", (), {"__repr__": lambda self: "256"})()  # marks that batch_size was not given


class Batches:
    """Batches of a share. Each iteration over them is one epoch. The state is kept by the DataIterator that made this object."""

    def __init__(self, share: Share, begin: Callable[[], Iterator[Any]]) -> None:
        self._share, self._begin = share, begin

    def __iter__(self) -> Iterator[Any]:
        return measured(self._begin())

    def state_dict(self) -> dict[str, Any]:
        return self._share.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._share.load_state_dict(state)


class Rows(Batches):
    """Rows one by one. The waiting time is measured for their blocks."""

    def __iter__(self) -> Iterator[Any]:
        return self._begin()


class Epochs:
    """The iterations of a DataIterator. Each is one epoch of the share."""

    rtrain_share = True  # neither a loader nor a Trainer may divide it again

    def __init__(self, share: Share, name: str = "") -> None:
        self._share = share
        self._name = name
        self._told = ""

    def __repr__(self) -> str:
        share = self._share
        whose = f"rank {share.rank} of {share.world}, " if share.world > 1 else ""
        return f"DataIterator({whose}{share.node.says()})"

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        raise TypeError(
            "a share of rtrain.data has no length (count() reads to know it). For torch's DataLoader: "
            "DataLoader(shard.to_torch(...), batch_size=None); without one: shard.iter_torch_batches(...)"
        )

    # -- iterating --------------------------------------------------------------------------------------------------
    def iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | str | None = _UNSET,
        global_batch_size: int | None = None,
        batch_format: str | None = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        _collate_fn: Callable[[Any], Any] | None = None,
        _finalize_fn: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Returns an iterable of batches: dicts of arrays ("default", "numpy"), DataFrames ("pandas") or Tables ("pyarrow").

        batch_size: rows of each batch but the last, 256 if left out; "auto" is 256; None yields blocks as they are read.
        global_batch_size: rows of one batch of all ranks together, instead of batch_size. It stays the same when the run is
        resized.
        drop_last: leaves out a last batch with fewer rows.
        prefetch_batches: how many batches a thread makes ahead; 0 makes each in the loop's own thread.
        local_shuffle_buffer_size: how many rows of each stream are shuffled at a time, one buffer after the other.
        local_shuffle_seed: the same on every rank. Streams have different orders.
        """
        check_format(batch_format, "iter_batches")
        size = self._size(batch_size, global_batch_size, local_shuffle_buffer_size, prefetch_batches)

        def batch_of(block: Block) -> Any:
            batch = block.batch(batch_format)
            return batch if _collate_fn is None else _collate_fn(batch)

        def begin() -> Iterator[Any]:
            return self._epoch(
                self._share,
                batch_of,
                size,
                prefetch_batches,
                drop_last,
                local_shuffle_buffer_size,
                local_shuffle_seed,
                _finalize_fn,
            )

        return Batches(self._share, begin)

    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | str | None = _UNSET,
        global_batch_size: int | None = None,
        dtypes: Any = None,
        device: Any = "auto",
        collate_fn: Callable[[dict[str, Any]], Any] | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        pin_memory: bool = False,
    ) -> Any:
        """Returns an iterable of batches: dicts of tensors on `device` ("auto": the device of this worker).

        dtypes: a torch type for all columns, or a dict of types by column.
        collate_fn: makes the batch from a dict of NumPy arrays; its tensors are moved to `device`.

        TypeError names a column that cannot become a tensor. The other arguments are those of `iter_batches`.
        """
        from rtrain._to_device import to_device
        from rtrain.data import _torch

        if collate_fn is not None and (dtypes is not None or not callable(collate_fn)):
            raise ValueError("iter_torch_batches: collate_fn is a function that makes the tensors, so that dtypes is not for it")
        size = self._size(batch_size, global_batch_size, local_shuffle_buffer_size, prefetch_batches)
        place = _torch.device_of(device)

        def batch_of(block: Block) -> Any:
            batch = block.numpy()
            return _torch.tensors(batch, dtypes) if collate_fn is None else collate_fn(batch)

        def finish(batch: Any) -> Any:
            return to_device(batch, place, non_blocking=pin_memory, pin=pin_memory)

        def begin() -> Iterator[Any]:
            return self._epoch(
                self._share, batch_of, size, prefetch_batches, drop_last, local_shuffle_buffer_size, local_shuffle_seed, finish
            )

        return Batches(self._share, begin)

    def iter_rows(self) -> Any:
        """Returns an iterable of rows, each a dict of Python values."""

        def begin() -> Iterator[Any]:
            progress, rows = self._share.begin()
            for row in rows.rows():
                progress.consumed += 1
                yield row
            progress.ended = True

        return Rows(self._share, begin)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.iter_rows())

    def to_torch(
        self,
        *,
        label_column: str | None = None,
        feature_columns: Any = None,
        label_column_dtype: Any = None,
        feature_column_dtypes: Any = None,
        batch_size: int | str = 1,
        prefetch_batches: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        unsqueeze_label_tensor: bool = True,
        unsqueeze_feature_tensors: bool = True,
    ) -> Any:
        """Returns a torch IterableDataset of batches (features, label), for `DataLoader(it, batch_size=None)`.

        With loader processes (num_workers) each process reads its own part, and `state_dict` then counts nothing.
        """
        from rtrain.data import _torch

        size = _checked_size(batch_size, local_shuffle_buffer_size, prefetch_batches)

        def batch_of(block: Block) -> Any:
            batch = _torch.tensors(block.numpy(), None)
            for name, dtype in _dtypes_of(batch, label_column, label_column_dtype, feature_column_dtypes).items():
                batch[name] = batch[name].to(dtype)
            return _torch.features_and_label(
                batch,
                label_column,
                feature_columns,
                unsqueeze_label=unsqueeze_label_tensor,
                unsqueeze_features=unsqueeze_feature_tensors,
            )

        def begin(share: Share) -> Iterator[Any]:
            return self._epoch(
                share, batch_of, size, prefetch_batches, drop_last, local_shuffle_buffer_size, local_shuffle_seed, None
            )

        self._share.publish_to_loader_processes()
        return _torch.Batches(self._share, begin)

    def _size(self, batch_size: int | str | None, whole: int | None, buffer: int | None, ahead: int) -> int | None:
        """Returns the rows of this rank's batches. ValueError for an invalid size, or a global batch that the ranks cannot
        share."""
        if whole is None:
            return _checked_size(_AUTO_ROWS if batch_size is _UNSET else batch_size, buffer, ahead)
        if batch_size is not _UNSET:
            raise ValueError("give either batch_size or global_batch_size, which is batch_size of all ranks together")
        world = self._share.world
        _checked_size(whole, buffer, ahead, "global_batch_size")
        if whole % world:
            below = whole // world * world
            fitting = f"{below} and {below + world} fit" if below else f"{world} fits"
            raise ValueError(f"global_batch_size is {whole}, which {world} ranks cannot share evenly; {fitting}")
        return whole // world

    def _epoch(
        self,
        share: Share,
        batch_of: Callable[[Block], Any],
        size: int | None,
        ahead: int,
        drop_last: bool,
        buffer: int | None,
        seed: int | None,
        finish: Callable[[Any], Any] | None,
    ) -> Iterator[Any]:
        progress, rows = share.begin(size, buffer or 0, seed)
        begun = time.monotonic()
        yield from _batches.counted(rows.batches(size, drop_last=drop_last), progress, batch_of, ahead, finish)
        left_out = f", {progress.left_out} left out at its end" if isinstance(progress, OfLanes) and progress.left_out else ""
        self._told = f"epoch {progress.epoch}: {progress.consumed} rows in {time.monotonic() - begun:.2f} s{left_out}"

    # -- where it is ------------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the newest iteration as plain numbers. It is the same on every rank that gave out as many
        rows.

        A state taken in the loop's body belongs to that epoch; after the loop's end, to the next one.
        """
        return self._share.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Sets the next iteration to the rest of the epoch of `state`. Later iterations are whole epochs.

        The number of ranks may differ from that of the state. ValueError for a value that is no state. For a dataset with other
        rows, ValueError is raised when the iteration begins.
        """
        self._share.load_state_dict(state)

    # -- what it is -------------------------------------------------------------------------------------------------
    def count(self) -> int:
        """Returns how many rows this share has in a whole epoch."""
        return self._share.rows()

    def stats(self) -> str:
        """Returns a sentence about the newest complete iteration."""
        return f"{self!r}: {self._told or 'nothing was iterated to its end yet'}"

    def _agree(self, exchange: Any) -> None:
        agreed(self._share, exchange)

    @property
    def _progress(self) -> Progress | None:
        return self._share.progress


def _checked_size(batch_size: int | str | None, buffer: int | None, ahead: int, named: str = "batch_size") -> int | None:
    """Returns the rows of a batch. "auto" is a fixed number, so that all ranks take the same number of steps."""
    size = _AUTO_ROWS if batch_size == "auto" else batch_size
    for name, value in ((named, size), ("local_shuffle_buffer_size", buffer)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} is {value!r}; it is a whole number from 1 on, or None")
    if not isinstance(ahead, int) or ahead < 0:
        raise ValueError(f"prefetch_batches is {ahead!r}; it is a whole number from 0 on")
    assert not isinstance(size, str)
    return size


def _dtypes_of(batch: Mapping[str, Any], label: str | None, label_dtype: Any, features: Any) -> dict[str, Any]:
    dtypes: dict[str, Any] = {}
    if isinstance(features, Mapping):
        dtypes.update({name: dtype for name, dtype in features.items() if name in batch and not isinstance(dtype, list)})
    elif features is not None and not isinstance(features, list):
        dtypes.update({name: features for name in batch if name != label})
    if label is not None and label_dtype is not None and label in batch:
        dtypes[label] = label_dtype
    return dtypes
