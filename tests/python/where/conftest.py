"""A separate home directory for each test."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from homes import Home


@pytest.fixture
def home(tmp_path: pathlib.Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()
