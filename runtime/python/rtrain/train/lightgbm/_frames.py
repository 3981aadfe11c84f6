"""Converts DataFrames to the form that LightGBM accepts."""

from __future__ import annotations

from typing import Any

from rtrain._lazy import public_in

_BY_KIND = {"i": "Int", "u": "UInt", "f": "Float"}


def normalize_pandas_for_lightgbm(df: Any) -> Any:
    """Returns a DataFrame in which columns of Arrow numbers and booleans have pandas' own nullable types. Other columns
    are unchanged.
    """
    import pandas as pd

    types = {}
    for name, dtype in df.dtypes.items():
        if not isinstance(dtype, pd.ArrowDtype):
            continue
        if dtype.kind == "b":
            types[name] = "boolean"
        elif dtype.kind in _BY_KIND:
            types[name] = f"{_BY_KIND[dtype.kind]}{8 * dtype.itemsize}"
    return df.astype(types) if types else df


public_in("rtrain.train.lightgbm", normalize_pandas_for_lightgbm)
