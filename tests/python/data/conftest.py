"""`rtrain.data` without a cluster; skipped without pyarrow."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "runtime" / "python"))
pytest.importorskip("pyarrow")


@pytest.fixture
def parquet(tmp_path: pathlib.Path) -> pathlib.Path:
    """Writes 1,000 rows with the column `id` to three files with row groups of 70 rows. Returns their folder."""
    import pyarrow
    from pyarrow import parquet as files

    folder = tmp_path / "parquet"
    folder.mkdir()
    for number, (start, stop) in enumerate([(0, 400), (400, 410), (410, 1000)]):
        table = pyarrow.table({"id": range(start, stop), "text": [f"row {one}" for one in range(start, stop)]})
        files.write_table(table, folder / f"part-{number}.parquet", row_group_size=70)
    return folder
