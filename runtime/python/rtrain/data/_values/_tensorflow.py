"""Makes a tf.data.Dataset of batches of NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

Columns = str | list[str]


def dataset(batches: Iterable[Any], groups: Sequence[tuple[Columns, Any]], first_row: Callable[[], Any]) -> Any:
    """Returns a dataset whose elements have a part for each group: a tensor for one column, a dict for a list of columns.

    groups: columns, and their `tf.TensorSpec`s or None. first_row: returns a batch of one row, from which missing specs follow.
    """
    import tensorflow as tf

    sample = None if all(spec is not None for _, spec in groups) else first_row()

    def spec_of(columns: Columns, spec: Any) -> Any:
        if spec is not None:
            return spec
        if isinstance(columns, str):
            array = _column(sample, columns)
            return tf.TensorSpec(shape=(None, *array.shape[1:]), dtype=tf.as_dtype(array.dtype))
        return {name: spec_of(name, None) for name in columns}

    def elements() -> Iterator[Any]:
        for batch in batches:
            yield tuple(
                _column(batch, columns) if isinstance(columns, str) else {name: _column(batch, name) for name in columns}
                for columns, _ in groups
            )

    return tf.data.Dataset.from_generator(elements, output_signature=tuple(spec_of(*group) for group in groups))


def _column(batch: Any, name: str) -> Any:
    if name not in batch:
        raise ValueError(f"to_tf: the dataset has no column {name!r}; it has {', '.join(batch)}")
    array = batch[name]
    return array.astype(str) if array.dtype.kind == "O" else array
