"""Sends blocks between processes: NumPy columns as raw memory, Arrow columns as one IPC stream. A received block uses the
received memory without a copy."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa

from rtrain import _public_names
from rtrain.data._block import Block
from rtrain.data._making._processes import _memory


def sealed(block: Block, beside: Any) -> int:
    """Returns a descriptor of sealed memory with a block and a small value."""
    arrow = {name: column for name, column in block.columns.items() if not isinstance(column, np.ndarray)}
    arrays = {name: _dense(column) for name, column in block.columns.items() if isinstance(column, np.ndarray)}
    value = (beside, block.names, block.without_nulls, block.origin, arrays)
    buffers: list[pickle.PickleBuffer] = []
    has_objects = any(array.dtype.hasobject for array in arrays.values())
    dumps = _public_names.dumps if has_objects else pickle.dumps
    head = dumps(value, protocol=5, buffer_callback=buffers.append)
    streams: list[Any] = []
    if arrow:
        table, sink = pa.table(arrow), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        streams.append(sink.getvalue())
    return _memory.sealed(head, [*(buffer.raw() for buffer in buffers), *streams])


def opened(descriptor: int) -> tuple[Block, Any]:
    """Returns the block and the value of sealed memory. NotSealed if the memory can still be changed."""
    head, buffers = _memory.opened(descriptor)
    coming = iter(buffers)
    beside, names, without_nulls, origin, columns = pickle.loads(head, buffers=coming)
    stream = next(coming, None)
    if stream is not None:
        table = pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
        columns.update((name, table.column(place)) for place, name in enumerate(table.schema.names))
    return Block({name: columns[name] for name in names}, without_nulls, origin), beside


def _dense(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns an array with contiguous memory, which can be sent as it is."""
    return array if array.flags.c_contiguous or array.flags.f_contiguous else np.ascontiguousarray(array)
